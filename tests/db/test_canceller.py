"""The canceller: kill requests of anybody, for jobs in any state."""

from __future__ import annotations

import pytest

from oarpy.transport.messages import Kill
from tests.db.small_cluster import Connection, SmallCluster

pytestmark = pytest.mark.db


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection)
    made.add_nodes("n1")
    return made


@pytest.mark.parametrize("hold", [False, True])
def test_a_job_that_waits_ends_at_once(cluster: SmallCluster, hold: bool) -> None:
    job = cluster.submit(hold=hold)
    cluster.delete(job)
    cluster.cancel()
    assert cluster.path(job) == ["Hold" if hold else "Waiting", "Error"]
    assert cluster.job(job, "message") == "killed: oardel"
    assert cluster.sql("SELECT state FROM kill_requests") == [("done",)]


def test_a_running_job_is_left_to_the_launcher(cluster: SmallCluster) -> None:
    job = cluster.submit()
    cluster.settle()
    cluster.delete(job)
    cluster.cancel()
    assert cluster.state(job) == "Running"
    assert cluster.sql("SELECT state FROM kill_requests") == [("decided",)]
    cluster.settle()
    assert cluster.path(job)[-3:] == ["Running", "Finishing", "Error"]
    assert len(cluster.sent(Kill)) == 1


def test_a_request_written_by_hand_says_why(cluster: SmallCluster) -> None:
    job = cluster.submit()
    cluster.settle()
    cluster.sql("INSERT INTO kill_requests (job_id, reason) VALUES (%s, 'the node is on fire')", job)
    cluster.settle()
    assert (cluster.state(job), cluster.job(job, "message")) == ("Error", "killed: the node is on fire")


def test_a_request_for_a_job_that_is_over_is_done(cluster: SmallCluster) -> None:
    job = cluster.submit(command="true")
    cluster.settle()
    cluster.delete(job)
    cluster.cancel()
    assert cluster.state(job) == "Terminated"
    assert cluster.sql("SELECT state FROM kill_requests") == [("done",)]


def test_a_thousand_waiting_jobs_end_in_one_run(cluster: SmallCluster) -> None:
    jobs = cluster.submit_array(1000, "/nodes=3")
    cluster.delete(*jobs)
    assert cluster.cancel().word == "cancelled 1000"
    assert cluster.sql("SELECT DISTINCT state FROM jobs") == [("Error",)]


def test_nothing_asked_nothing_done(cluster: SmallCluster) -> None:
    cluster.submit()
    assert cluster.cancel().word == "nothing"
