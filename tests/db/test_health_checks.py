"""Nodes where the site's check fails get no jobs, with its words; they come back by themselves."""

from __future__ import annotations

import pytest

from oarpy.modules.launcher.health_checks import NodeHealth
from oarpy.wire.messages import CheckHealth
from tests.harness.small_cluster import Connection, SmallCluster, with_settings

pytestmark = pytest.mark.db

STATES = "SELECT DISTINCT network_address, state FROM resources ORDER BY 1"


def cluster_with(connection: Connection, program: str) -> SmallCluster:
    made = SmallCluster(connection, with_settings(nodes={"health_check": program}))
    made.add_nodes("n1", "n2")
    return made


def due(cluster: SmallCluster, node: str) -> None:
    """Let the time come when a node is to be asked."""
    part = next(part for part in cluster.launcher._parts if isinstance(part, NodeHealth))
    part._due[node] = 0.0
    cluster.launcher._synced = 0.0  # and when unfit nodes are asked whether they are well
    cluster.settle()


def test_a_node_that_fails_gets_no_jobs_until_it_passes(connection: Connection) -> None:
    cluster = cluster_with(connection, "/site/check")
    running = cluster.submit("/nodes=2")
    cluster.settle()
    assert sorted(node for node, _ in cluster.sent(CheckHealth)) == ["n1", "n2"]
    cluster.node("n1").unhealthy = "health check ended with exit status 1: the disk is full"
    due(cluster, "n1")
    assert cluster.sql(STATES) == [("n1", "Suspected"), ("n2", "Alive")]
    assert cluster.state(running) == "Running", "what runs goes on"
    told = "SELECT hosts, description FROM event_logs WHERE type = 'HEALTH_CHECK'"
    assert cluster.sql(told) == [(["n1"], cluster.node("n1").unhealthy)]
    assert cluster.sql("SELECT away_reason FROM nodes WHERE network_address = 'n1'") == [
        (cluster.node("n1").unhealthy,)
    ]
    waiting = cluster.submit("/nodes=2/core=1")
    cluster.end(running)
    cluster.settle()
    assert cluster.state(waiting) == "Waiting"
    cluster.node("n1").unhealthy = ""
    due(cluster, "n1")
    due(cluster, "n1")
    assert cluster.sql(STATES) == [("n1", "Alive"), ("n2", "Alive")]
    assert cluster.state(waiting) == "Running"
    assert len(cluster.sql(told)) == 1


def test_a_node_that_fails_for_another_cause_has_its_new_words(connection: Connection) -> None:
    cluster = cluster_with(connection, "/site/check")
    cluster.settle()
    causes = ["health check ended with exit status 3: cause A", "health check ended with exit status 7: cause B"]
    since = set()
    for words in (causes[0], causes[0], causes[1], causes[1]):
        cluster.node("n1").unhealthy = words
        due(cluster, "n1")
        [(reason, by, at)] = cluster.sql(
            "SELECT away_reason, away_by, away_since FROM nodes WHERE network_address = 'n1'"
        )
        assert (reason, by) == (words, "node")
        since.add(at)
    assert len(since) == 1, "it is away since the first cause"
    told = "SELECT description FROM event_logs WHERE type = 'HEALTH_CHECK' ORDER BY event_id"
    assert [text for (text,) in cluster.sql(told)] == causes, "one event a cause"
    assert cluster.sql(STATES) == [("n1", "Suspected"), ("n2", "Alive")]


def test_words_of_an_admin_stay(connection: Connection) -> None:
    cluster = cluster_with(connection, "/site/check")
    cluster.settle()
    cluster.node("n1").unhealthy = "health check ended with exit status 3: cause A"
    due(cluster, "n1")
    cluster.sql("UPDATE nodes SET away_reason = 'a new disk is ordered', away_by = 'ann' WHERE network_address = 'n1'")
    cluster.node("n1").unhealthy = "health check ended with exit status 7: cause B"
    due(cluster, "n1")
    assert cluster.sql("SELECT away_reason, away_by FROM nodes WHERE network_address = 'n1'") == [
        ("a new disk is ordered", "ann")
    ]
    assert cluster.sql("SELECT count(*) FROM event_logs WHERE type = 'HEALTH_CHECK'") == [(1,)]


def test_without_a_program_nodes_forget_what_one_has_found(connection: Connection) -> None:
    cluster = cluster_with(connection, "")
    cluster.submit(command="true")
    cluster.settle()
    assert cluster.sent(CheckHealth) == [("n1", CheckHealth("", 60.0)), ("n2", CheckHealth("", 60.0))]
    assert cluster.launcher._parts[-1].wait() == float("inf")


def test_every_node_of_a_job_is_checked_after_it(connection: Connection) -> None:
    cluster = cluster_with(connection, "/site/check")
    job = cluster.submit("/nodes=2")
    cluster.settle()
    part = next(part for part in cluster.launcher._parts if isinstance(part, NodeHealth))
    before = dict(part._due)
    assert before.keys() == {"n1", "n2"}
    cluster.end(job)
    cluster.settle()
    assert all(part._due[node] < before[node] for node in before), "sooner than at the end of the interval"
