"""Wrong rows, written by hand: what the tables refuse, and what else is mended on the way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from psycopg.errors import CheckViolation, ExclusionViolation
from psycopg.sql import SQL, Identifier

from oarpy.store.grid import clusters
from oarpy.store.platform import properties
from tests.harness.hand_written import Connection, add_job, add_resource, insert, move, one, rewrite
from tests.harness.small_cluster import SmallCluster

pytestmark = [pytest.mark.db, pytest.mark.oldest]

INFINITE = pytest.mark.parametrize("value", ["infinity", "-infinity", "0044-03-15 BC", "5000-01-01"])
JOB_INSTANTS = ("reservation_start", "submitted_at", "started_at", "ended_at", "reservation_offer", "suspended_at")


@pytest.fixture(scope="module")
def job(unchanged: Connection) -> int:
    add_resource(unchanged)
    return add_job(unchanged, reservation_start="2030-01-01", reservation_state="toSchedule")


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    cluster = SmallCluster(connection)
    cluster.add_nodes("n1", "n2")
    cluster.launch()
    return cluster


def update_job(connection: Connection, job: int, column: str, value: object) -> None:
    statement = SQL("UPDATE jobs SET {} = %s WHERE job_id = %s").format(Identifier(column))
    connection.execute(statement, [value, job])


@pytest.mark.parametrize("types", ["{NULL}", "{{a,b},{c,d}}", "{a,NULL}", "{naïve}", "{" + ",".join("ab" * 26) + "}"])
def test_types_are_a_flat_list_of_words(unchanged: Connection, job: int, types: str) -> None:
    with pytest.raises(CheckViolation):
        unchanged.execute("UPDATE jobs SET types = %s::text[] WHERE job_id = %s", [types, job])


@INFINITE
@pytest.mark.parametrize("column", JOB_INSTANTS)
def test_instants_of_jobs_are_finite(unchanged: Connection, job: int, column: str, value: str) -> None:
    with pytest.raises(CheckViolation, match=f"jobs_{column}_check|ended_when|suspended_since|not_started"):
        update_job(unchanged, job, column, value)


def test_a_running_job_started_at_a_real_instant(connection: Connection) -> None:
    job = add_job(connection)
    move(connection, job, "toLaunch", "Launching", "Running")
    with pytest.raises(CheckViolation, match="jobs_started_at_check"):
        update_job(connection, job, "started_at", "infinity")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("walltime", "100 years"),
        ("walltime", "-1 year 361 days"),
        ("checkpoint", "100 years"),
        ("suspended_time", "-1 second"),
        ("suspended_time", "100 years"),
        ("project", ""),
        ("project", "a\tb"),
        ("command", "x" * 131_072),
        ("launching_directory", "here"),
        ("launching_directory", "/" + "x" * 4096),
        ("started_at", "2026-01-01"),
    ],
    ids=str,
)
def test_a_job_has_what_commands_take(unchanged: Connection, job: int, column: str, value: str) -> None:
    with pytest.raises(CheckViolation):
        update_job(unchanged, job, column, value)


def test_walltimes_are_finite(unchanged: Connection, job: int, postgres_version: str) -> None:
    endless = "infinity" if int(postgres_version) >= 17 else "178000000 years"
    for value in (endless, "0.5 seconds", "11 years", "-1 year 361 days"):
        with pytest.raises(CheckViolation):
            unchanged.execute("UPDATE moldable_descriptions SET walltime = %s", [value])
    with pytest.raises(CheckViolation):
        update_job(unchanged, job, "walltime", endless)


def test_every_column_of_a_kind_is_sound(unchanged: Connection, job: int) -> None:
    """Whatever table it is in: no row that a reader could not compute with can be written."""
    query = """
        SELECT c.table_name, c.column_name, c.udt_name FROM information_schema.columns c
            JOIN information_schema.tables t USING (table_schema, table_name)
        WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE'
          AND c.udt_name IN ('timestamptz', 'interval', 'tstzrange', 'numeric', 'float8', '_text')
    """
    wrong = {
        "timestamptz": "'infinity'",
        "interval": "'200 years'",
        "tstzrange": "'[2000-01-01,infinity)'",
        "numeric": "'NaN'",
        "float8": "'NaN'",
        "_text": "'{NULL}'",
    }
    columns = unchanged.execute(query).fetchall()
    assert len(columns) > 50
    for table, column, kind in columns:
        found = unchanged.execute(
            "SELECT conname, pg_get_expr(conbin, conrelid) FROM pg_constraint WHERE conrelid = %s::regclass"
            " AND contype = 'c' AND conname = %s",
            [table, f"{table}_{column}_check"],
        ).fetchone()
        assert found is not None, (table, column)
        value = SQL("SELECT ({}) IS NOT FALSE FROM (SELECT {}::{} AS {}) AS probe").format(
            SQL(found[1]), SQL(wrong[kind]), SQL("text[]" if kind == "_text" else kind), Identifier(column)
        )
        assert one(unchanged, value.as_string()) is False, (table, column)


@pytest.mark.parametrize("environment", ['{"A": 1}', '{"A": null}', '{"A": {"B": "c"}}', "[]"])
def test_an_environment_holds_texts(unchanged: Connection, job: int, environment: str) -> None:
    with pytest.raises(CheckViolation):
        unchanged.execute("UPDATE submissions SET environment = %s::jsonb", [environment])


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM site",
        "TRUNCATE site",
        "INSERT INTO site (only_row) VALUES (false)",
        "DELETE FROM scheduling_passes",
        "UPDATE scheduling_passes SET seconds = 'NaN'",
        "DELETE FROM job_transitions WHERE from_state = 'Waiting'",
        "UPDATE job_states SET holding = true",
        "TRUNCATE job_passages",
        "INSERT INTO resource_states VALUES ('Sleepy')",
        "DELETE FROM resource_properties WHERE name = 'core'",
        "UPDATE resource_properties SET kind = 'text' WHERE name = 'core'",
        "INSERT INTO resource_properties VALUES ('nosuch', 'integer')",
        "UPDATE site SET platform_version = 9223372036854775807",
        "UPDATE resources SET cpuset = -1",
        "UPDATE resources SET available_upto = 'infinity'",
    ],
)
def test_what_oarpy_counts_on_stays(unchanged: Connection, job: int, statement: str) -> None:
    with pytest.raises(CheckViolation):
        unchanged.execute(statement.encode())
    assert one(unchanged, "SELECT count(*) FROM site") == 1


def test_counters_of_all_changes_begin_again(connection: Connection, cluster: SmallCluster) -> None:
    connection.execute("UPDATE site SET platform_version = 9007199254740991")
    connection.execute("UPDATE scheduling_passes SET pass = 9007199254740991")
    connection.execute("UPDATE resources SET state = 'Absent' WHERE network_address = 'n2'")
    cluster.plan()
    assert one(connection, "SELECT platform_version FROM site") == 0
    assert one(connection, "SELECT pass FROM scheduling_passes") == 0


def test_dates_that_an_admin_adds_are_finite(connection: Connection) -> None:
    add_resource(connection)
    with connection.transaction():
        properties.add(connection, "bought", "timestamptz")
    with pytest.raises(CheckViolation):
        connection.execute("UPDATE resources SET bought = 'infinity'")


def test_sums_of_what_is_held_are_counted(connection: Connection, cluster: SmallCluster) -> None:
    cluster.add_consumable("memory", n1=10)
    for statement in ("UPDATE consumable_capacities SET held = 1", "UPDATE consumable_capacities SET held = held + 1"):
        with pytest.raises(CheckViolation, match="counted from assigned_amounts"):
            connection.execute(statement)


def test_a_state_log_of_the_future_gives_way(connection: Connection) -> None:
    resource = add_resource(connection)
    rewrite(connection, "UPDATE resource_state_logs SET during = '[2000-01-01,2000-01-02)'")
    insert(
        connection,
        "resource_state_logs",
        resource_id=resource,
        state="Dead",
        state_by="x",
        during="[2001-01-01,2900-01-01)",
    )
    connection.execute("UPDATE resources SET state = 'Absent'")
    rows = connection.execute("SELECT state, upper_inf(during) FROM resource_state_logs ORDER BY during").fetchall()
    assert rows == [("Alive", False), ("Dead", False), ("Absent", True)]


def reserve(cluster: SmallCluster, hours: int) -> int:
    """An accepted reservation of all cores for an hour, some hours from now."""
    job = cluster.submit("/core=4", reservation=cluster.now() + timedelta(hours=hours))
    cluster.plan()
    assert cluster.job(job, "reservation_state") == "Scheduled"
    return job


def test_an_accepted_reservation_moves_with_its_resources(connection: Connection, cluster: SmallCluster) -> None:
    job = reserve(cluster, 24)
    move_start = "UPDATE jobs SET reservation_start = reservation_start + interval '2 hours' WHERE job_id = %s"
    connection.execute(move_start, [job])
    held = "SELECT count(*) FROM reserved_resources JOIN jobs USING (job_id) WHERE lower(during) = reservation_start"
    assert one(connection, held) == 4
    connection.execute("UPDATE jobs SET walltime = '3 hours' WHERE job_id = %s", [job])
    assert one(connection, "SELECT DISTINCT upper(during) - lower(during) FROM reserved_resources") == timedelta(
        hours=3, seconds=1
    )
    later = cluster.submit("/core=4", reservation=cluster.now() + timedelta(hours=24))
    cluster.plan()
    assert cluster.job(later, "reservation_state") == "Scheduled"


def test_an_accepted_reservation_does_not_move_onto_another(connection: Connection, cluster: SmallCluster) -> None:
    first, second = reserve(cluster, 24), reserve(cluster, 48)
    with pytest.raises(ExclusionViolation):
        connection.execute(
            "UPDATE jobs SET reservation_start = (SELECT reservation_start FROM jobs WHERE job_id = %s)"
            " WHERE job_id = %s",
            [first, second],
        )


def test_a_job_stood_still_for_no_longer_than_it_is_since_it_began(connection: Connection) -> None:
    job = add_job(connection)
    move(connection, job, "toLaunch", "Launching", "Running")
    with pytest.raises(CheckViolation, match="cannot have stood still for"):
        update_job(connection, job, "suspended_time", "10 years")
    with pytest.raises(CheckViolation, match="cannot have stood still for"):
        add_job(connection, suspended_time="2 hours")
    update_job(connection, job, "started_at", datetime.now(UTC) - timedelta(hours=3))
    update_job(connection, job, "suspended_time", "2 hours")
    # by a clock that is behind, it ended before it began
    update_job(connection, job, "started_at", datetime.now(UTC))
    hours = one(connection, "SELECT core_hours FROM oar_report.jobs WHERE job_id = %s", job)
    assert hours == 0


@pytest.mark.parametrize("number", [-1, 2**63 - 1])
def test_numbers_of_events_are_those_that_a_door_takes(connection: Connection, number: int) -> None:
    clusters.put(connection, "north", "oarpy", ["oargriddoor"])
    with pytest.raises(CheckViolation, match="grid_clusters_last_event_check"):
        connection.execute("UPDATE grid_clusters SET last_event = %s", [number])
