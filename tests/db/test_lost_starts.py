"""Starts that a node did not come to: each job is asked for again, and starts once."""

from __future__ import annotations

import pytest

from oarpy.wire.messages import Start
from tests.harness.small_cluster import Connection, SmallCluster

pytestmark = [pytest.mark.db]


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection)
    made.add_nodes("n1", cores=4)
    return made


def starts_of(cluster: SmallCluster, job: int) -> list[int]:
    """The attempts that the node really started."""
    return [spec.attempt for spec in cluster.node("n1").starts if spec.job == job]


def test_what_a_killed_agent_only_claimed_is_started_by_the_next(cluster: SmallCluster) -> None:
    cluster.node("n1").deaf = True
    jobs = cluster.submit_array(3)
    cluster.settle()
    assert cluster.states(jobs) == ["Launching"] * 3
    cluster.node("n1").deaf = False
    cluster.nodes.lose("n1")
    cluster.reconnect("n1")
    cluster.settle()
    assert cluster.states(jobs) == ["Running"] * 3
    assert [starts_of(cluster, job) for job in jobs] == [[1]] * 3


def test_a_launcher_that_begins_sends_what_was_only_claimed(cluster: SmallCluster) -> None:
    cluster.node("n1").deaf = True
    job = cluster.submit()
    cluster.settle()
    cluster.node("n1").deaf = False
    cluster.restart_launcher()
    cluster.settle()
    assert cluster.state(job) == "Running"
    assert starts_of(cluster, job) == [1]


def test_a_node_is_asked_about_starts_that_it_does_not_answer(cluster: SmallCluster) -> None:
    cluster.start_patience = 0.0
    cluster.restart_launcher()
    cluster.node("n1").deaf = True
    job = cluster.submit()
    cluster.settle()
    cluster.node("n1").deaf = False
    cluster.settle()
    assert cluster.state(job) == "Running"
    assert starts_of(cluster, job) == [1]
    asked = len(cluster.sent(Start))
    cluster.settle()
    assert len(cluster.sent(Start)) == asked, "what was answered is not asked again"


def test_who_does_not_answer_is_given_time(cluster: SmallCluster) -> None:
    cluster.node("n1").deaf = True
    cluster.submit()
    cluster.settle()
    cluster.settle()
    assert len(cluster.sent(Start)) == 1
    assert cluster.launch().wake_at is not None
