"""Schema oar_compat has the tables of OAR 2.5; who reads it or oar_report sees nothing private, and changes nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from oarpy.modules.accounting import file_away
from oarpy.store.schema import statements
from oarpy.store.schema.checks.catalog import describe
from tests.harness.past_jobs import MARCH, MONTH, NOW, ended
from tests.harness.sample_cluster import Connection, Shell, add_job, add_nodes

pytestmark = [pytest.mark.db, pytest.mark.oldest]

ROLE = "analyst_of_tests"
SECRET = "sesame"
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
EPOCH = 1777636800


def row(connection: Connection, query: str, *values: object) -> tuple[Any, ...]:
    found = connection.execute(query, values).fetchall()
    assert len(found) == 1, found
    return found[0]


@pytest.fixture
def analyst(connection: Connection, shell: Shell) -> psycopg.Connection[Any]:
    """A session of an analyst, on a database with jobs that have something private, one of them of the past."""
    add_nodes(connection, "n1")
    private: dict[str, Any] = {
        "command": SECRET,
        "launching_directory": f"/{SECRET}",
        "stdout_path": SECRET,
        "notify": f"exec:{SECRET}",
    }
    ended(connection, MARCH)
    add_job(connection, "Running", resources=[1], user="ann", request=f"oarsub {SECRET}", **private)
    add_job(connection, "Waiting", user="bob", types=["container=box"], request=f"oarsub {SECRET}", **private)
    connection.execute("""UPDATE submissions SET environment = '{"PASSWORD": "sesame"}'""")
    file_away(connection, NOW, MONTH)
    assert shell.done("oarpy", "db", "analyst", ROLE).startswith(f"role {ROLE} ")
    assert shell.done("oarpy", "db", "analyst", ROLE) == f"role {ROLE} renewed\n"
    connection.execute(SQL("SET SESSION AUTHORIZATION {}").format(Identifier(ROLE)))
    return connection


def test_every_view_and_column_is_commented(connection: Connection) -> None:
    views = describe(connection, "oar_compat")
    assert {view.name for view in views} == set(statements.names("compat"))
    assert [view.name for view in views if not view.comment] == []
    missing = [f"{view.name}.{column.name}" for view in views for column in view.columns if not column.comment]
    assert [name for name in missing if not name.startswith("resources.")] == []


def test_an_analyst_reads_the_views_and_nothing_private(analyst: Connection) -> None:
    names = [("oar_report", name) for name in statements.names("views")]
    names += [("oar_compat", name) for name in statements.names("compat")]
    for schema, name in names:
        rows = analyst.execute(SQL("SELECT v::text FROM {} v").format(Identifier(schema, name))).fetchall()
        assert [text for (text,) in rows if SECRET in text] == [], name
    readable = analyst.execute(
        "SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S') AND has_schema_privilege(n.oid, 'USAGE')"
        " AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND has_any_column_privilege(c.oid, 'SELECT')"
    )
    assert {schema for (schema,) in readable} == {"oar_report", "oar_compat"}
    for table in ("public.jobs", "public.submissions", "oar_past.jobs", "oar_all.jobs"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            analyst.execute(SQL("SELECT FROM {}").format(Identifier(*table.split("."))))


def test_an_analyst_sees_what_they_typed_themselves(analyst: Connection) -> None:
    assert row(analyst, "SELECT command, initial_request FROM oar_compat.jobs WHERE job_user = 'bob'") == (
        "",
        "oarsub -t container=box",
    )
    analyst.execute("RESET SESSION AUTHORIZATION")
    analyst.execute("ALTER TABLE jobs DISABLE TRIGGER USER")
    analyst.execute("UPDATE jobs SET user_name = %s WHERE user_name = 'bob'", [ROLE])
    analyst.execute(SQL("SET SESSION AUTHORIZATION {}").format(Identifier(ROLE)))
    assert row(analyst, "SELECT command FROM oar_compat.jobs WHERE job_user = %s", ROLE) == (SECRET,)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM oar_compat.frag_jobs",
        "UPDATE oar_compat.queues SET priority = 1000",
        "INSERT INTO oar_compat.schema VALUES ('3', 'mine')",
        "UPDATE oar_report.consumables SET capacity = 1",
        "CREATE TABLE oar_report.mine (x integer)",
        "CREATE VIEW public.mine AS SELECT 1",
        "DELETE FROM public.jobs",
        "SELECT pg_advisory_lock(1)",
        "SELECT pg_try_advisory_xact_lock(1, 2)",
        "SELECT pg_sleep(1)",
        "SELECT pg_notify('oarpy_events', 'x')",
        "SELECT lo_create(0)",
        "SELECT lo_from_bytea(0, 'x')",
        "CREATE TEMPORARY TABLE mine (x integer)",
    ],
)
def test_an_analyst_changes_nothing(analyst: Connection, statement: str) -> None:
    analyst.execute("SET default_transaction_read_only = off")
    with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ObjectNotInPrerequisiteState)):
        analyst.execute(statement)


def test_a_role_for_something_else_is_refused(connection: Connection, shell: Shell) -> None:
    (owner,) = row(connection, "SELECT current_user")
    refused = shell("oarpy", "db", "analyst", owner)
    assert (refused.status, f"'{owner}' is a role for something else" in refused.err) == (2, True)


def test_a_password_is_kept_as_a_hash(connection: Connection, shell: Shell, tmp_path: Any) -> None:
    (tmp_path / "secret").write_text("open\nrest\n")
    shell.done("oarpy", "db", "analyst", ROLE, "--compat", "--password-file", str(tmp_path / "secret"))
    assert row(connection, "SELECT rolpassword LIKE 'SCRAM-SHA-256$%%' FROM pg_authid WHERE rolname = %s", ROLE) == (
        True,
    )
    settings = row(
        connection,
        "SELECT setconfig FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole"
        " JOIN pg_database d ON d.oid = s.setdatabase WHERE rolname = %s AND datname = current_database()",
        ROLE,
    )
    assert settings == (
        [
            "search_path=oar_compat",
            "default_transaction_read_only=on",
            "statement_timeout=10min",
            "idle_in_transaction_session_timeout=10min",
        ],
    )


def test_jobs_have_the_names_and_forms_of_oar(connection: Connection) -> None:
    resources = add_nodes(connection, "n1")
    job = add_job(connection, "Terminated", resources=resources, started=NOON, seconds=60, status=256, types=["noop"])
    expected = "Terminated", "None", "", EPOCH, EPOCH + 60, 256, job, "NO", 0, "oarsub -t noop"
    columns = "state, reservation, command, start_time, stop_time, exit_code, assigned_moldable_job, suspended"
    query = SQL("SELECT {}, resubmit_job_id, initial_request FROM oar_compat.jobs").format(SQL(columns))
    assert connection.execute(query).fetchall() == [expected]
    held = "SELECT * FROM oar_compat.assigned_resources ORDER BY resource_id"
    assert connection.execute(held).fetchall() == [(job, resource, "LOG") for resource in resources]
    assert row(connection, "SELECT type, types_index FROM oar_compat.job_types") == ("noop", "LOG")
    logs = "SELECT job_state, date_stop = 0 FROM oar_compat.job_state_logs WHERE job_state IN ('Waiting', 'Terminated')"
    assert sorted(connection.execute(logs)) == [("Terminated", True), ("Waiting", False)]


def test_members_of_an_array_have_alternatives_of_their_own(connection: Connection) -> None:
    first = add_job(connection)
    connection.execute(
        "INSERT INTO moldable_descriptions (submission_id, position, walltime)"
        " SELECT submission_id, 1, interval '2 hours' FROM jobs"
    )
    connection.execute(
        "INSERT INTO jobs (submission_id, array_id, array_index, user_name, queue_name)"
        " SELECT submission_id, job_id, 2, user_name, queue_name FROM jobs"
    )
    found = connection.execute("SELECT * FROM oar_compat.moldable_job_descriptions ORDER BY moldable_job_id, 1 DESC")
    second = first + 1
    assert found.fetchall() == [
        (first, first, 3600, "CURRENT"),
        (-(first * 1000 + 1), first, 7200, "CURRENT"),
        (second, second, 3600, "CURRENT"),
        (-(second * 1000 + 1), second, 7200, "CURRENT"),
    ]
    groups = connection.execute("SELECT res_group_moldable_id FROM oar_compat.job_resource_groups ORDER BY 1")
    assert groups.fetchall() == [(first,), (second,)]


def test_properties_of_the_site_come_and_go(connection: Connection, shell: Shell) -> None:
    add_nodes(connection, "n1", cores=1)
    shell.done("oarproperty", "-a", "switch", "-c")
    connection.execute("UPDATE resources SET switch = 's1', drain = true, available_upto = '2026-05-01 12:00+00'")
    query = "SELECT switch, drain, available_upto, cpuset, finaud_decision, state_num FROM oar_compat.resources"
    assert row(connection, query) == ("s1", "YES", EPOCH, "0", "NO", 1)
    # by hand, too
    connection.execute("ALTER TABLE resources DROP COLUMN switch")
    assert row(connection, "SELECT switch FROM oar_compat.resources") == (None,)
    shell.done("oarproperty", "-d", "switch")
    with pytest.raises(psycopg.errors.UndefinedColumn):
        connection.execute("SELECT switch FROM oar_compat.resources")


def test_what_the_site_made_of_the_view_of_resources_stays(connection: Connection, shell: Shell) -> None:
    """Its rights and the views that read it, when a property comes or goes; one that needs the property is named."""
    connection.execute(
        "GRANT SELECT ON oar_compat.resources TO pg_monitor WITH GRANT OPTION;"
        " CREATE VIEW hosts AS SELECT DISTINCT network_address FROM oar_compat.resources;"
        " GRANT SELECT ON hosts TO pg_monitor"
    )
    rights = (
        "SELECT has_table_privilege('pg_monitor', 'oar_compat.resources', 'SELECT WITH GRANT OPTION'),"
        " has_table_privilege('pg_monitor', 'hosts', 'SELECT')"
    )
    for words in (("-a", "switch"), ("-r", "switch,swtch"), ("-d", "swtch")):
        shell.done("oarproperty", *words)
        assert row(connection, rights) == (True, True)
    shell.done("oarproperty", "-a", "switch")
    connection.execute("CREATE VIEW switches AS SELECT DISTINCT switch FROM oar_compat.resources")
    refused = shell("oarproperty", "-d", "switch")
    assert (refused.status, refused.out) == (1, "")
    assert refused.err.startswith("oarproperty: view public.switches cannot be made again: column"), refused.err
    assert row(connection, "SELECT count(*) FROM switches") == (0,)


def test_predictions_and_the_date_of_the_last_pass(connection: Connection) -> None:
    resources = add_nodes(connection, "n1", cores=3)
    running = add_job(connection, "Running", resources=resources[:1], started=NOON)
    waiting = add_job(connection)
    connection.execute(
        "INSERT INTO gantt_predictions (job_id, verdict, moldable_id, start_time, end_time, resources)"
        " SELECT job_id, 'resources_busy', (SELECT max(moldable_id) FROM moldable_descriptions), %s,"
        " %s::timestamptz + interval '1 hour', int4multirange(int4range(2, 4)) FROM jobs WHERE state = 'Waiting'",
        [NOON, NOON],
    )
    connection.execute("UPDATE scheduling_passes SET at = %s", [NOON])
    found = connection.execute("SELECT * FROM oar_compat.gantt_jobs_predictions_visu ORDER BY 1").fetchall()
    assert found == [(0, EPOCH), (running, EPOCH), (waiting, EPOCH)]
    held = connection.execute("SELECT * FROM oar_compat.gantt_jobs_resources_visu ORDER BY 1, 2").fetchall()
    assert held == [(running, resources[0]), (waiting, 2), (waiting, 3)]
