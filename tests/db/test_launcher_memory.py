"""What the launcher remembers does not grow with the jobs that went through it."""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Mapping

import pytest

from tests.harness.small_cluster import Connection, SmallCluster

pytestmark = pytest.mark.db

DEADLINE = 30.0
LONG = 60.0
"""Seconds after which the launcher looks again when there is nothing that it has put off."""
OWN = ("oarpy.modules.launcher", "oarpy.transport.inbox")
"""Where the classes are whose objects are the launcher's own, and not its surroundings'."""


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection)
    made.add_nodes("n1", "n2", "n3", "n4")
    return made


def remembered(cluster: SmallCluster) -> int:
    """How many entries all the containers have that the launcher holds, directly or through objects of its own."""
    seen: set[int] = set()
    queue: list[object] = [cluster.launcher]
    entries = 0
    while queue:
        one = queue.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        container = isinstance(one, (Mapping, list, set, frozenset, tuple, deque))
        if container:
            entries += len(one)  # type: ignore[arg-type]
        if container or type(one).__module__.startswith(OWN):
            queue += [other for other in gc.get_referents(one) if not isinstance(other, type)]
    return entries


def every_fate(cluster: SmallCluster) -> None:
    """Let jobs end by themselves, on one node and on several, be signalled, suspended and killed, lose a channel."""
    ending = [*cluster.submit_array(3, command="true"), cluster.submit("/nodes=2", command="true")]
    cluster.settle()
    assert cluster.states(ending) == ["Terminated"] * 4
    signalled, stopped = cluster.submit("/nodes=2"), cluster.submit()
    cluster.settle()
    cluster.sql("INSERT INTO signal_requests (job_id, signal) VALUES (%s, 10)", signalled)
    cluster.sql("INSERT INTO suspend_requests (job_id) VALUES (%s)", stopped)
    cluster.settle()
    assert cluster.states([signalled, stopped]) == ["Running", "Suspended"]
    cluster.nodes.lose(cluster.hosts(signalled)[0])
    cluster.reconnect(cluster.hosts(signalled)[0])
    cluster.delete(signalled, stopped)
    cluster.settle()
    assert cluster.states([signalled, stopped]) == ["Error"] * 2


def at_rest(cluster: SmallCluster) -> int:
    """The entries when the nodes have been told what they may forget, which takes a moment."""
    until = time.monotonic() + DEADLINE
    while True:
        wake_at = cluster.launch().wake_at
        if wake_at is not None and wake_at > time.time() + LONG:
            return remembered(cluster)
        assert time.monotonic() < until, "the launcher has always something to do"


def test_jobs_that_are_over_are_forgotten(cluster: SmallCluster) -> None:
    every_fate(cluster)
    before = at_rest(cluster)
    for _ in range(3):
        every_fate(cluster)
    assert at_rest(cluster) == before
