"""Two sessions that change at once what a running job holds: one waits for the other, and sees what it did."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from oarpy.store.jobs import execution, extensions, resizes
from oarpy.store.jobs.execution import End
from oarpy.store.jobs.extensions import Grant
from tests.harness.small_cluster import Connection, SmallCluster

pytestmark = pytest.mark.db

OPEN = "SELECT resource_id FROM assigned_resources WHERE upper_inf(during) ORDER BY 1"


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    """Three nodes of one core; the first two are held by a job that runs."""
    made = SmallCluster(connection)
    made.add_nodes("n1", "n2", "n3", cores=1)
    made.submit("/nodes=2,walltime=1:0:0")
    made.settle()
    return made


def waits_for_a_lock(cluster: SmallCluster, session: Connection) -> None:
    query = "SELECT pid FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
    deadline = time.monotonic() + 30
    while not cluster.sql(query, session.info.backend_pid):
        assert time.monotonic() < deadline, "nobody waits"


def committed(work: Callable[[Connection], object], session: Connection) -> object:
    found = work(session)
    session.commit()
    return found


def at_once(
    cluster: SmallCluster, dsn: str, first: Callable[[Connection], object], second: Callable[[Connection], object]
) -> tuple[object, object]:
    """Let ``second`` begin when ``first`` is done and not committed; return what they returned."""
    with ThreadPoolExecutor(1) as pool, psycopg.connect(dsn) as one, psycopg.connect(dsn) as other:
        one.execute("SELECT")
        done = first(one)
        waiting = pool.submit(committed, second, other)
        try:
            waits_for_a_lock(cluster, other)
        finally:
            one.commit()
        return done, waiting.result(30)


def end(session: Connection) -> list[int]:
    now = time.time()
    return execution.end(session, [End(1, "Terminated", 0, now, now, "", "")])


def grant(number: int) -> Callable[[Connection], list[int]]:
    return lambda session: extensions.grant(session, [Grant(-2 * number, number, [3])])


@pytest.mark.parametrize("ends_first", [False, True])
def test_a_job_that_ends_while_it_is_given_hosts_holds_none(cluster: SmallCluster, dsn: str, ends_first: bool) -> None:
    number = extensions.ask(cluster.connection, 1, "firm", "more", {"": 1})
    assert number is not None
    if ends_first:
        assert at_once(cluster, dsn, end, grant(number)) == ([1], [])
    else:
        assert at_once(cluster, dsn, grant(number), end) == ([number], [1])
    assert cluster.sql(OPEN) == []


def test_a_host_is_ordered_to_go_once(cluster: SmallCluster, dsn: str) -> None:
    def release(session: Connection) -> int | None:
        return resizes.order(session, 1, "release", [2])

    first, second = at_once(cluster, dsn, release, release)
    assert (first is None, second) == (False, None)
    assert len(resizes.opened(cluster.connection)) == 1


def test_what_is_given_back_is_not_taken_as_well(cluster: SmallCluster, dsn: str) -> None:
    number = extensions.ask(cluster.connection, 1, "revocable", "more", {"": 1})
    assert number is not None
    cluster.plan()
    resizes.confirm(cluster.connection, [one.id for one in resizes.opened(cluster.connection)])
    extensions.reclaim(cluster.connection, [(1, [3], time.time() - 1)])
    at_once(
        cluster,
        dsn,
        lambda session: resizes.order(session, 1, "release", [3]),
        lambda session: extensions.take(session, time.time()),
    )
    assert [(one.kind, one.resources) for one in resizes.opened(cluster.connection)] == [("release", (3,))]
