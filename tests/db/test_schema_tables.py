"""The migrated database is what the tables in the code say, forwards and backwards."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import psycopg
import pytest

from oarpy.store import migrations
from oarpy.store.catalog import Relation, describe
from oarpy.store.schema_check import TRIGGERS, check, expected_constraints
from oarpy.store.tables import METADATA

pytestmark = pytest.mark.db
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

FUNCTIONS = (
    "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prolang <> 13 AND probin IS NULL"
)


def by_name(relations: tuple[Relation, ...]) -> dict[str, tuple[object, ...]]:
    """Everything but the comments, which only the migration has."""
    return {
        relation.name: (
            [(c.name, c.type, c.nullable, c.default) for c in relation.columns],
            relation.constraints,
            relation.indexes,
        )
        for relation in relations
    }


def test_fresh_database_has_no_problem(dsn: str) -> None:
    assert check(dsn) == ()


def test_tables_in_the_code_build_the_migrated_schema(dsn: str, empty_dsn: str) -> None:
    with migrations.connected(empty_dsn) as built:
        built.exec_driver_sql("CREATE EXTENSION btree_gist")
        METADATA.create_all(built)
    with psycopg.connect(dsn) as migrated, psycopg.connect(empty_dsn) as created:
        expected, found = by_name(describe(migrated)), by_name(describe(created))
        assert sorted(found) == sorted(expected)
        for name, description in expected.items():
            assert found[name] == description


def test_list_of_triggers_is_complete(connection: Connection) -> None:
    query = "SELECT tgrelid::regclass::text, tgname FROM pg_trigger WHERE NOT tgisinternal"
    assert set(connection.execute(query).fetchall()) == TRIGGERS


def test_up_down_up(empty_dsn: str) -> None:
    first = migrations.upgrade(empty_dsn)
    assert first[0] == "0001"
    assert first[-1] == migrations.head()
    with psycopg.connect(empty_dsn) as connection:
        before = describe(connection), describe(connection, "oar_report")
    assert migrations.downgrade(empty_dsn) == tuple(reversed(first))
    with psycopg.connect(empty_dsn) as connection:
        assert describe(connection) == ()
        assert not connection.execute(FUNCTIONS).fetchall()
        assert not connection.execute("SELECT FROM pg_namespace WHERE nspname = 'oar_report'").fetchall()
    assert migrations.upgrade(empty_dsn) == first
    with psycopg.connect(empty_dsn) as connection:
        assert (describe(connection), describe(connection, "oar_report")) == before
    assert check(empty_dsn) == ()


def test_one_revision_at_a_time(empty_dsn: str) -> None:
    migrations.upgrade(empty_dsn, "0001")
    assert migrations.current(empty_dsn) == "0001"
    assert check(empty_dsn)[0].startswith("the schema is at revision 0001, this oarpy needs")
    assert "0001" not in migrations.upgrade(empty_dsn)
    assert check(empty_dsn) == ()


def test_upgrade_twice_does_nothing_the_second_time(empty_dsn: str) -> None:
    migrations.upgrade(empty_dsn)
    assert migrations.upgrade(empty_dsn) == ()


def test_concurrent_upgrades_take_turns(empty_dsn: str) -> None:
    code = "import sys; from oarpy.store import migrations; print(*migrations.upgrade(sys.argv[1]))"
    command = [sys.executable, "-c", code, empty_dsn]

    def run(_: int) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    with ThreadPoolExecutor(3) as pool:
        applied = [output for output in pool.map(run, range(3)) if output]
    assert len(applied) == 1
    assert check(empty_dsn) == ()


def test_failed_upgrade_leaves_nothing(empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn) as connection:
        connection.execute("CREATE TABLE module_runs (module text)")
    with pytest.raises(Exception, match="already exists"):
        migrations.upgrade(empty_dsn)
    assert migrations.current(empty_dsn) is None
    with psycopg.connect(empty_dsn) as connection:
        assert [relation.name for relation in describe(connection)] == ["module_runs"]


def test_no_schema_is_one_problem(empty_dsn: str) -> None:
    assert check(empty_dsn) == ("there is no oarpy schema in this database: run 'oarpy db upgrade'",)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("ALTER TABLE jobs DROP COLUMN launching_directory", "add_column jobs launching_directory"),
        ("ALTER TABLE jobs ADD COLUMN extra text", "remove_column jobs extra"),
        ("ALTER TABLE jobs ALTER COLUMN project DROP NOT NULL", "modify_nullable jobs project"),
        ("ALTER TABLE jobs ALTER COLUMN properties TYPE varchar(9)", "modify_type jobs properties"),
        ("DROP TABLE module_runs", "add_table module_runs"),
        ("DROP INDEX jobs_live", "add_index jobs_live"),
        ("ALTER TABLE quotas DROP CONSTRAINT one_rule_a_key", "one_rule_a_key"),
        ("ALTER TABLE job_dependencies DROP CONSTRAINT job_dependencies_job_id_fkey", "job_dependencies_job_id_fkey"),
        ("ALTER TABLE jobs DROP CONSTRAINT reservation_whole", "constraint reservation_whole of table jobs"),
        (
            "ALTER TABLE assigned_resources DROP CONSTRAINT one_exclusive_holder",
            "constraint one_exclusive_holder of table assigned_resources is missing",
        ),
        ("ALTER TABLE jobs DISABLE TRIGGER jobs_moved", "trigger jobs_moved of table jobs is missing or disabled"),
        ("DROP TRIGGER announced ON queues", "trigger announced of table queues is missing"),
        (
            "DELETE FROM job_transitions WHERE (from_state, to_state) = ('Hold', 'Waiting')",
            "job_transitions lacks the row ('Hold', 'Waiting'",
        ),
        (
            "INSERT INTO job_transitions VALUES ('Error', 'Running', 'magic', 'nobody')",
            "job_transitions has the unknown row ('Error', 'Running'",
        ),
        (
            "DELETE FROM job_passages WHERE from_state = 'Running'",
            "job_passages lacks the row ('Running', 'Terminated'",
        ),
        ("UPDATE job_states SET final = true WHERE state = 'Hold'", "job_states lacks the row ('Hold', 'H', False"),
        ("INSERT INTO resource_states VALUES ('Sleepy')", "resource_states has the unknown row ('Sleepy',)"),
        ("INSERT INTO resource_properties VALUES ('gpu', 'integer')", "property gpu has no column in resources"),
        ("ALTER TABLE resources ADD COLUMN gpu integer", "column resources.gpu is not listed in resource_properties"),
        ("DROP EXTENSION btree_gist CASCADE", "extension btree_gist is missing"),
        ("DROP VIEW oar_report.jobs CASCADE", "view oar_report.jobs is missing"),
    ],
)
def test_check_names_the_damage(dsn: str, damage: str, problem: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(damage)
    assert problem in "\n".join(check(dsn))


def test_property_of_the_admin_is_no_problem(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("ALTER TABLE resources ADD COLUMN gpu integer")
        connection.execute("INSERT INTO resource_properties VALUES ('gpu', 'integer')")
        connection.execute("CREATE INDEX my_own ON jobs (project)")
    assert check(dsn) == ()


def test_every_check_constraint_is_named_in_the_code(connection: Connection) -> None:
    query = "SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE contype IN ('c', 'x') AND conrelid <> 0"
    assert set(connection.execute(query).fetchall()) == expected_constraints()
