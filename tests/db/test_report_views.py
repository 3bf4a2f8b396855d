"""The views for analysts, on a history small enough to work out by hand."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from oarpy.store.schema import statements
from oarpy.store.schema.checks.catalog import describe
from tests.harness.hand_written import Connection, add_job, insert, move, one, rewrite

pytestmark = [pytest.mark.db, pytest.mark.oldest, pytest.mark.kept]

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def rows(dsn: str, query: str) -> list[dict[str, Any]]:
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture
def finished(connection: Connection) -> int:
    """A job of ann: asked for two nodes, waited 60 s, ran 1800 s of its hour on 4 cores of 2 nodes and a licence."""
    job = add_job(connection, user_name="ann", project="p1", job_name="flow", types=["besteffort", "container=box"])
    held = [
        insert(connection, "resources", network_address=f"n{core % 2}", core=core, host="h") for core in (1, 2, 3, 4)
    ]
    held.append(insert(connection, "resources", type="licence"))
    move(connection, job, "toLaunch")
    for resource in held:
        insert(connection, "assigned_resources", job_id=job, resource_id=resource, during=f"{{[{NOON},)}}")
    move(connection, job, "Launching", "Running", "Finishing")
    connection.execute(
        "UPDATE jobs SET state = 'Terminated', left_nothing = true, exit_status = 256, submitted_at = %(noon)s,"
        " started_at = %(noon)s + interval '1 minute', ended_at = %(noon)s + interval '31 minutes'",
        {"noon": NOON},
    )
    return job


def test_every_view_and_column_is_commented(connection: Connection) -> None:
    views = describe(connection, "oar_report")
    assert {view.name for view in views} == set(statements.names("views"))
    assert [view.name for view in views if not view.comment] == []
    assert [(view.name, column.name) for view in views for column in view.columns if not column.comment] == []


def test_jobs(dsn: str, finished: int) -> None:
    (row,) = rows(dsn, "SELECT * FROM oar_report.jobs")
    expected = {
        "job_id": finished,
        "user_name": "ann",
        "project": "p1",
        "job_name": "flow",
        "state": "Terminated",
        "exit_status": 256,
        "wait_seconds": 60.0,
        "run_seconds": 1800.0,
        "walltime_seconds": 3600.0,
        "nodes": 2,
        "resources": 4,
        "cores": 4,
        "core_hours": 2.0,
        "asked_core_hours": 4.0,
    }
    assert {key: row[key] for key in expected} == expected


def test_jobs_that_wait_or_never_ran(dsn: str, connection: Connection) -> None:
    waiting, deleted = add_job(connection), add_job(connection)
    connection.execute("UPDATE jobs SET submitted_at = now() - interval '1 hour'")
    move(connection, deleted, "Error")
    rewrite(connection, "UPDATE jobs SET ended_at = submitted_at + interval '5 seconds' WHERE job_id = %s", deleted)
    found = {row["job_id"]: row for row in rows(dsn, "SELECT * FROM oar_report.jobs")}
    assert found[waiting]["wait_seconds"] >= 3600
    assert found[deleted]["wait_seconds"] == 5
    for row in found.values():
        assert (row["run_seconds"], row["walltime_seconds"], row["cores"], row["core_hours"]) == (None, None, 0, None)


def test_cores_shared_by_resources_count_once(dsn: str, connection: Connection) -> None:
    job = add_job(connection)
    for core in (7, 7, None, None):
        resource = insert(connection, "resources", network_address="n1", core=core)
        insert(connection, "assigned_resources", job_id=job, resource_id=resource, during="{[now,)}")
    assert [(row["resources"], row["cores"]) for row in rows(dsn, "SELECT * FROM oar_report.jobs")] == [(4, 3)]


def test_job_types(dsn: str, finished: int) -> None:
    found = rows(dsn, "SELECT job_id, type, value FROM oar_report.job_types ORDER BY type")
    assert [tuple(row.values()) for row in found] == [(finished, "besteffort", None), (finished, "container", "box")]


def test_moldable_alternatives(dsn: str, connection: Connection) -> None:
    job = add_job(connection)
    submission = one(connection, "SELECT submission_id FROM jobs")
    second = insert(connection, "moldable_descriptions", submission_id=submission, position=1, walltime="90 s")
    for position, (text, levels) in enumerate([("gpu > 0", [("switch", 2), ("nodes", -1)]), ("", [("core", -3)])]):
        group = insert(connection, "resource_groups", moldable_id=second, position=position, filter=text)
        for place, (level, count) in enumerate(levels):
            insert(connection, "resource_descriptions", group_id=group, position=place, level=level, count=count)
    connection.execute("UPDATE jobs SET moldable_id = %s", [second])
    found = rows(dsn, "SELECT * FROM oar_report.moldable_alternatives ORDER BY alternative")
    assert [(r["job_id"], r["alternative"], r["walltime_seconds"], r["request"], r["chosen"]) for r in found] == [
        (job, 0, 3600.0, "/core=1", False),
        (job, 1, 90.0, "{gpu > 0}/switch=2/nodes=ALL+/core=BESTHALF", True),
    ]


def test_job_state_history(dsn: str, connection: Connection) -> None:
    job = add_job(connection)
    move(connection, job, "Hold", "Error")
    parts = ((NOON, NOON + timedelta(seconds=s)) for s in (10, 20))
    for state, (begin, end) in zip(("Waiting", "Hold"), parts, strict=True):
        rewrite(connection, "UPDATE job_state_logs SET during = tstzrange(%s, %s) WHERE state = %s", begin, end, state)
    found = rows(dsn, "SELECT * FROM oar_report.job_state_history ORDER BY entered_at, left_at")
    assert [(r["state"], r["previous_state"], r["event"], r["who"], r["seconds"]) for r in found] == [
        ("Waiting", None, None, None, 10.0),
        ("Hold", "Waiting", "held", "oarhold", 20.0),
        ("Error", "Hold", "deleted while held", "canceller", None),
    ]
    assert found[-1]["left_at"] is None


def test_assigned_resources(dsn: str, connection: Connection, finished: int) -> None:
    hour = "UPDATE assigned_resources SET during = tstzmultirange(tstzrange(%s, %s))"
    rewrite(connection, hour, NOON, NOON + timedelta(hours=1))
    found = rows(dsn, "SELECT * FROM oar_report.assigned_resources ORDER BY resource_id")
    assert [(r["resource_type"], r["network_address"], r["seconds"]) for r in found] == [
        *(("default", node, 3600.0) for node in ("n1", "n0", "n1", "n0")),
        ("licence", None, 3600.0),
    ]
    assert {(r["job_id"], r["user_name"], r["released_at"]) for r in found} == {
        (finished, "ann", NOON + timedelta(hours=1))
    }


def test_node_state_history(dsn: str, connection: Connection) -> None:
    resource = insert(connection, "resources", network_address="n1")
    connection.execute("UPDATE resources SET state = 'Dead'")
    rewrite(
        connection,
        "UPDATE resource_state_logs SET during = tstzrange(lower(during) - interval '2 hours', upper(during))"
        " WHERE state = 'Alive'",
    )
    found = rows(dsn, "SELECT * FROM oar_report.node_state_history ORDER BY entered_at")
    assert [(r["network_address"], r["resource_id"], r["state"], r["state_by"]) for r in found] == [
        ("n1", resource, "Alive", "admin"),
        ("n1", resource, "Dead", "admin"),
    ]
    assert found[0]["seconds"] >= 7200
    assert found[1]["left_at"] is None


def account(connection: Connection, day: datetime, user: str, project: str, kind: str, seconds: int) -> None:
    insert(
        connection,
        "accounting",
        window_start=day,
        window_stop=day + timedelta(days=1),
        user_name=user,
        project=project,
        queue_name="default",
        consumption_type=kind,
        consumption=seconds,
    )


def test_accounting(dsn: str, connection: Connection) -> None:
    day = datetime(2026, 5, 1, tzinfo=UTC)
    account(connection, day, "ann", "p1", "ASKED", 7200)
    account(connection, day, "ann", "p1", "USED", 1800)
    account(connection, day, "ann", "p1", "GPU_USED", 900)
    account(connection, day, "bob", "p1", "ASKED", 60)
    account(connection, day + timedelta(days=1), "ann", "p1", "USED", 3600)
    query = "SELECT * FROM oar_report.accounting ORDER BY day, user_name"
    found = [tuple(row.values()) for row in rows(dsn, query)]
    assert found == [
        (day, "ann", "p1", "default", 7200.0, 1800.0, 0.5, 0.0, 0.25),
        (day, "bob", "p1", "default", 60.0, 0.0, 0.0, 0.0, 0.0),
        (day + timedelta(days=1), "ann", "p1", "default", 0.0, 3600.0, 1.0, 0.0, 0.0),
    ]


def test_karma(dsn: str, connection: Connection) -> None:
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    account(connection, today - timedelta(days=1), "ann", "p1", "USED", 300)
    account(connection, today - timedelta(days=1), "bob", "p1", "USED", 100)
    account(connection, today - timedelta(days=29), "bob", "p2", "ASKED", 80)
    account(connection, today - timedelta(days=40), "bob", "p2", "USED", 10_000)
    found = [tuple(row.values()) for row in rows(dsn, "SELECT * FROM oar_report.karma ORDER BY kind, name")]
    assert found == [
        ("project", "p1", 0.0, 400.0, 0.0, 1.0, 0.0, 0.0),
        ("project", "p2", 80.0, 0.0, 1.0, 0.0, 0.0, 0.0),
        ("user", "ann", 0.0, 300.0, 0.0, 0.75, 0.0, 1.5),
        ("user", "bob", 80.0, 100.0, 1.0, 0.25, 0.0, 1.5),
    ]


def test_karma_of_nothing_is_empty(dsn: str) -> None:
    assert rows(dsn, "SELECT * FROM oar_report.karma") == []


def test_waiting_jobs_and_predictions(dsn: str, connection: Connection) -> None:
    for core in range(1, 5):
        insert(connection, "resources", resource_id=core, network_address=f"n{core}", core=core)
    predicted, held, new = add_job(connection), add_job(connection, state="Hold"), add_job(connection)
    running = add_job(connection)
    move(connection, running, "toLaunch", "Launching", "Running")
    connection.execute(
        "INSERT INTO gantt_predictions (job_id, verdict, reason, moldable_id, start_time, end_time, resources)"
        " SELECT job_id, 'resources_busy', 'all cores are busy', m.moldable_id, %s, %s, '{[1,2],[4,4]}'"
        " FROM jobs JOIN moldable_descriptions m USING (submission_id) WHERE job_id = %s",
        [NOON, NOON + timedelta(hours=1), predicted],
    )
    found = rows(dsn, "SELECT * FROM oar_report.waiting_jobs ORDER BY job_id")
    assert [(r["job_id"], r["verdict"], r["reason"], r["predicted_start"], r["queue_priority"]) for r in found] == [
        (predicted, "resources_busy", "all cores are busy", NOON, 3),
        (held, "held", "", None, 3),
        (new, None, "", None, 3),
    ]
    chart = rows(dsn, "SELECT * FROM oar_report.predictions ORDER BY resource_id")
    assert [(r["job_id"], r["alternative"], r["resource_id"], r["network_address"]) for r in chart] == [
        (predicted, 0, core, f"n{core}") for core in (1, 2, 4)
    ]
    assert {(r["predicted_start"], r["predicted_end"]) for r in chart} == {(NOON, NOON + timedelta(hours=1))}


def test_an_analyst_needs_no_other_right(dsn: str, connection: Connection, finished: int) -> None:
    # roles belong to the whole server, which other tests share
    role = sql.Identifier(f"analyst_{uuid.uuid4().hex}")

    def run(statement: LiteralString, on: Connection = connection) -> None:
        on.execute(sql.SQL(statement).format(role))

    run("CREATE ROLE {}")
    try:
        run("GRANT USAGE ON SCHEMA oar_report TO {}")
        run("GRANT SELECT ON ALL TABLES IN SCHEMA oar_report TO {}")
        with psycopg.connect(dsn, autocommit=True) as analyst:
            run("SET ROLE {}", on=analyst)
            assert one(analyst, "SELECT job_id FROM oar_report.jobs") == finished
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                analyst.execute("SELECT FROM public.jobs")
    finally:
        run("DROP OWNED BY {}")
        run("DROP ROLE {}")


def test_efficiency(dsn: str, connection: Connection, finished: int) -> None:
    assert rows(dsn, "SELECT * FROM oar_report.efficiency") == [], "nobody measured it"
    rewrite(connection, "UPDATE jobs SET cpu_seconds = 3600, memory_peak = 1000 WHERE job_id = %s", finished)
    (row,) = rows(dsn, "SELECT * FROM oar_report.efficiency")
    expected = {
        "job_id": finished,
        "user_name": "ann",
        "nodes": 2,
        "cores": 4,
        "run_seconds": 1800.0,
        "core_seconds": 7200.0,
        "cpu_seconds": 3600.0,
        "cpu_efficiency": 0.5,
        "memory_peak_bytes": 1000,
        "memory_asked_bytes": None,
        "memory_efficiency": None,
    }
    assert {key: row[key] for key in expected} == expected


def test_a_state_lasts_although_the_clock_went_back(dsn: str, connection: Connection) -> None:
    job = add_job(connection)
    rewrite(connection, "UPDATE job_state_logs SET during = tstzrange(now() + interval '1 hour', NULL)")
    move(connection, job, "Error")
    found = rows(dsn, "SELECT state, entered_at, seconds FROM oar_report.job_state_history ORDER BY entered_at")
    assert {row["state"] for row in found if row["entered_at"] is not None} == {"Waiting", "Error"}
    assert [row["seconds"] for row in found if row["state"] == "Waiting"] == [0.000001]
