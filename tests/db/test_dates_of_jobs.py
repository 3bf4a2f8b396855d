"""Dates of jobs, windows of dependencies and bounds on a pass, on the database."""

from __future__ import annotations

from datetime import timedelta

import pytest

from oarpy.model.dependency import parse_dependency
from tests.harness.small_cluster import Connection, SmallCluster, with_settings

pytestmark = [pytest.mark.db, pytest.mark.kept]


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection)
    made.add_nodes("n1")
    return made


def dated(cluster: SmallCluster, **offsets: int) -> list[str]:
    """Return job types whose dates lie so many seconds after the instant that the modules are told."""
    return [
        f"{name}={(cluster.now() + timedelta(seconds=away)).isoformat(' ', 'seconds')}"
        for name, away in offsets.items()
    ]


def test_a_postponed_job_starts_at_its_date(cluster: SmallCluster) -> None:
    job = cluster.submit(types=dated(cluster, postpone=600))
    outcome = cluster.plan()
    assert cluster.verdict(job)[0] == "date"
    assert "postponed until" in cluster.verdict(job)[1]
    assert cluster.predicted(job) == pytest.approx(600, abs=5)
    assert outcome.wake_at is not None
    assert outcome.wake_at == pytest.approx(cluster.now().timestamp() + 600, abs=5)
    cluster.offset = 601
    cluster.settle()
    assert cluster.state(job) == "Running"


@pytest.mark.parametrize("policy", ["easy", "first_fit"])
def test_a_pass_comes_at_the_dates_for_which_nothing_is_foreseen(connection: Connection, policy: str) -> None:
    cluster = SmallCluster(connection, with_settings(scheduler={"policy": policy}))
    cluster.add_nodes("n1", "n2")
    running = cluster.submit("/nodes=1,walltime=0:10:0")
    postponed = cluster.submit("/nodes=1,walltime=1:0:0", types=dated(cluster, postpone=900))
    cluster.settle()
    outcome = cluster.plan()
    assert (cluster.state(running), cluster.predicted(postponed)) == ("Running", None)
    assert outcome.wake_at == pytest.approx(cluster.now().timestamp() + 900, abs=5)
    shifted = cluster.submit("/nodes=1,walltime=1:0:0", dependencies=(parse_dependency(f"{running},[+300"),))
    outcome = cluster.plan()
    assert cluster.predicted(shifted) is None
    assert outcome.wake_at == pytest.approx(cluster.now().timestamp() + 300, abs=10)


def test_a_job_that_did_not_start_in_time_expires(cluster: SmallCluster) -> None:
    cluster.submit("/nodes=1,walltime=1:0:0")
    cluster.settle()
    job = cluster.submit(types=dated(cluster, expire=600))
    outcome = cluster.plan()
    assert cluster.state(job) == "Waiting"
    assert cluster.verdict(job)[0] == "date"
    assert "it has to start by" in cluster.verdict(job)[1]
    assert cluster.predicted(job) is None
    assert outcome.wake_at == pytest.approx(cluster.now().timestamp() + 601, abs=5)
    cluster.offset = 605
    cluster.settle()
    assert cluster.state(job) == "Error"
    assert "JOB_EXPIRED" in cluster.events(job)
    assert "it expired at" in cluster.job(job, "message")


def test_a_job_is_not_placed_past_its_deadline_and_ends_in_error_when_it_cannot_meet_it(cluster: SmallCluster) -> None:
    first = cluster.submit("/nodes=1,walltime=1:0:0")
    cluster.settle()
    late = cluster.submit("/core=1,walltime=0:30:0", types=dated(cluster, deadline=4000))
    early = cluster.submit("/core=1,walltime=0:30:0", types=dated(cluster, deadline=6000))
    cluster.plan()
    assert cluster.predicted(late) is None
    assert "it has to end by" in cluster.verdict(late)[1]
    assert cluster.predicted(early) == pytest.approx(3601, abs=5)
    cluster.offset = 2400
    cluster.settle()
    assert cluster.states([first, late, early]) == ["Running", "Error", "Waiting"]
    assert "DEADLINE_MISSED" in cluster.events(late)


def test_dates_that_cannot_be_read_stop_their_job_alone(cluster: SmallCluster) -> None:
    broken, fine = cluster.submit(types=["deadline=tomorrow"]), cluster.submit()
    cluster.settle()
    assert cluster.states([broken, fine]) == ["Waiting", "Running"]
    assert cluster.verdict(broken)[0] == "never"
    assert "deadline=tomorrow" in cluster.verdict(broken)[1]


def test_a_dependency_counts_from_the_start_of_the_other_job(cluster: SmallCluster) -> None:
    first = cluster.submit("/core=1,walltime=1:0:0")
    second = cluster.submit(dependencies=(parse_dependency(f"{first},[+300"),))
    cluster.settle()
    assert cluster.predicted(second) == pytest.approx(300, abs=5)
    cluster.offset = 305
    cluster.settle()
    assert cluster.states([first, second]) == ["Running", "Running"]


def test_a_job_that_missed_the_window_of_a_dependency_ends_in_error(cluster: SmallCluster) -> None:
    first = cluster.submit("/nodes=1,walltime=1:0:0")
    second = cluster.submit(dependencies=(parse_dependency(f"{first},[+0,[+300"),))
    cluster.settle()
    assert cluster.verdict(second)[0] == "dependency"
    assert cluster.predicted(second) is None
    cluster.offset = 310
    cluster.settle()
    assert cluster.states([first, second]) == ["Running", "Error"]
    assert "DEPENDENCY_WINDOW_MISSED" in cluster.events(second)


def test_a_bounded_pass_says_which_jobs_it_left_out(connection: Connection) -> None:
    cluster = SmallCluster(connection, with_settings(scheduler={"jobs_per_pass": 3, "jobs_per_user": 2}))
    cluster.add_nodes("n1")
    hold = cluster.submit("/nodes=1,walltime=1:0:0")
    cluster.settle()
    anns = [cluster.submit() for _ in range(3)]
    bobs = [cluster.submit(user="bob") for _ in range(2)]
    cluster.plan()
    assert cluster.state(hold) == "Running"
    assert [cluster.verdict(job)[0] for job in (*anns, *bobs)] == [
        "resources_busy", "resources_busy", "behind_higher_priority", "resources_busy", "behind_higher_priority"
    ]  # fmt: skip
    assert "takes 2 jobs of a user" in cluster.verdict(anns[2])[1]
    assert "stops after 3 jobs" in cluster.verdict(bobs[1])[1]
    assert cluster.predicted(bobs[1]) is None
