"""A new database is what the code says, and ``check`` names what is not."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import psycopg
import pytest

from oarpy.store.schema import statements
from oarpy.store.schema.checks.check import check, expected_constraints

pytestmark = [pytest.mark.db, pytest.mark.oldest]
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"


def test_fresh_database_has_no_problem(dsn: str) -> None:
    assert check(dsn) == ()


def test_list_of_triggers_is_complete(connection: Connection) -> None:
    query = (
        "SELECT relname, tgname FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid"
        " WHERE NOT tgisinternal AND relnamespace = 'public'::regnamespace"
    )
    assert set(connection.execute(query).fetchall()) == statements.triggers()


@pytest.mark.parametrize("kind", ["functions", "views"])
def test_every_function_and_view_has_its_file(connection: Connection, kind: Literal["functions", "views"]) -> None:
    queries = {
        "functions": "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND probin IS NULL",
        "views": "SELECT viewname FROM pg_views WHERE schemaname = 'oar_report'",
    }
    found = sorted(row[0] for row in connection.execute(queries[kind]).fetchall())
    assert found == sorted(statements.names(kind))


def test_no_schema_is_one_problem(empty_dsn: str) -> None:
    assert check(empty_dsn) == ("there is no oarpy schema in this database: run 'oarpy db upgrade'",)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("ALTER TABLE queues DROP COLUMN message", "add_column queues message"),
        ("ALTER TABLE jobs ADD COLUMN extra text", "remove_column jobs extra"),
        ("ALTER TABLE jobs ALTER COLUMN project DROP NOT NULL", "modify_nullable jobs project"),
        ("ALTER TABLE queues ALTER COLUMN message TYPE varchar(9)", "modify_type queues message"),
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
        ("ALTER TABLE resources DROP COLUMN host", "property host has no column in resources"),
        ("ALTER TABLE resources ADD COLUMN gpu integer", "column resources.gpu is not listed in resource_properties"),
        ("DROP EXTENSION btree_gist CASCADE", "extension btree_gist is missing"),
        ("DROP VIEW oar_report.jobs CASCADE", "view oar_report.jobs is missing"),
    ],
)
def test_check_names_the_damage(dsn: str, damage: str, problem: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("SET LOCAL oarpy.migrating = 'yes'")
        connection.execute(damage)
    assert problem in "\n".join(check(dsn))


def test_property_of_the_admin_is_no_problem(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("ALTER TABLE resources ADD COLUMN gpu integer")
        connection.execute("INSERT INTO resource_properties VALUES ('gpu', 'integer')")
        connection.execute("CREATE INDEX my_own ON jobs (project)")
    assert check(dsn) == ()


def test_every_check_constraint_is_named_in_the_code(connection: Connection) -> None:
    query = (
        "SELECT conrelid::regclass::text, conname FROM pg_constraint"
        " WHERE contype IN ('c', 'x') AND conrelid <> 0 AND connamespace = 'public'::regnamespace"
    )
    assert set(connection.execute(query).fetchall()) == expected_constraints()
