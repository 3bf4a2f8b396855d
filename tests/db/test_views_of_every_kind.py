"""Jobs of each kind, made by the modules, in the views of ``oar_report`` and ``oar_compat``."""

from __future__ import annotations

from typing import LiteralString

import pytest

from oarpy.store.analytics import recount
from tests.harness.jobs_of_each_kind import JobsOfEachKind, jobs_of_each_kind
from tests.harness.small_cluster import Connection, SmallCluster

pytestmark = pytest.mark.db

# As DrawGantt asks for what has run or runs.
DRAWN = """
    SELECT DISTINCT j.job_id, j.start_time, j.stop_time
    FROM oar_compat.jobs j JOIN oar_compat.assigned_resources a ON a.moldable_job_id = j.assigned_moldable_job
    WHERE j.stop_time > 0 OR j.state IN ('Running', 'Suspended', 'Resuming') ORDER BY job_id
"""


@pytest.fixture
def jobs(connection: Connection) -> JobsOfEachKind:
    return jobs_of_each_kind(connection)


def ids(connection: Connection, query: LiteralString) -> set[int]:
    return {row[0] for row in connection.execute(query)}


def test_best_effort_jobs_that_gave_way_are_counted(connection: Connection, jobs: JobsOfEachKind) -> None:
    ((number, hours),) = connection.execute("SELECT jobs, wasted_hours FROM oar_report.besteffort_waste").fetchall()
    ((seconds,),) = connection.execute(
        "SELECT run_seconds * resources FROM oar_report.jobs WHERE job_id = %s", [jobs.gave_way]
    ).fetchall()
    assert (number, hours) == (1, pytest.approx(seconds / 3600))
    assert recount.day_differences(connection) == []


def test_nothing_is_drawn_from_1970(connection: Connection, jobs: JobsOfEachKind) -> None:
    drawn = connection.execute(DRAWN).fetchall()
    assert {job for job, _, _ in drawn} == {
        jobs.gave_way, jobs.runs, jobs.suspended, jobs.never_launched, jobs.failed
    }  # fmt: skip
    ((first,),) = connection.execute("SELECT min(submission_time) FROM oar_compat.jobs").fetchall()
    assert [start >= first and (stop == 0 or stop >= start) for _, start, stop in drawn] == [True] * len(drawn)
    planned = connection.execute(
        "SELECT moldable_job_id FROM oar_compat.gantt_jobs_predictions_visu WHERE start_time < %s", [first]
    )
    assert planned.fetchall() == []


def test_what_was_never_given_resources_has_no_start(connection: Connection, jobs: JobsOfEachKind) -> None:
    assert ids(connection, "SELECT job_id FROM oar_compat.jobs WHERE start_time = 0") == {jobs.waits, jobs.deleted}
    assert ids(connection, "SELECT job_id FROM oar_compat.jobs WHERE stop_time = 0") == {
        jobs.runs, jobs.suspended, jobs.waits
    }  # fmt: skip
    assert ids(connection, "SELECT job_id FROM oar_compat.jobs WHERE stop_time BETWEEN 1 AND start_time - 1") == set()


def test_what_holds_resources_has_a_start_to_draw(connection: Connection, jobs: JobsOfEachKind) -> None:
    """Between its decision and its start too."""
    cluster = SmallCluster(connection)
    job = cluster.submit("/core=1")
    cluster.plan()
    assert cluster.state(job) == "toLaunch"
    begun = "SELECT moldable_job_id FROM oar_compat.gantt_jobs_predictions WHERE start_time > 0"
    held = "SELECT moldable_job_id FROM oar_compat.gantt_jobs_resources"
    assert job in ids(connection, held)
    assert ids(connection, held) <= ids(connection, begun)


def test_a_job_is_suspended_from_the_first_time_on(connection: Connection, jobs: JobsOfEachKind) -> None:
    assert ids(connection, "SELECT job_id FROM oar_compat.jobs WHERE suspended = 'YES'") == {jobs.suspended}


def test_failures_and_sums_of_all_kinds(connection: Connection, jobs: JobsOfEachKind) -> None:
    found = connection.execute("SELECT DISTINCT job_id, cause FROM oar_report.failures").fetchall()
    assert dict(found) == {
        jobs.gave_way: "BESTEFFORT_KILL",
        jobs.reservation: "oardel",
        jobs.never_launched: "oardel",
        jobs.failed: "exit status",
        jobs.deleted: "oardel",
    }
    sums = connection.execute("SELECT sum(jobs), sum(failed_jobs), sum(started_jobs) FROM oar_report.daily_jobs")
    assert sums.fetchall() == [(5, 5, 2)]
    negative = "SELECT job_id FROM oar_report.jobs WHERE least(wait_seconds, run_seconds, core_hours) < 0"
    assert ids(connection, negative) == set()
