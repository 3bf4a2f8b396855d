"""Reservations with a window: they move for others, and back; who is refused is offered other starts."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.harness.small_cluster import Connection, SmallCluster, with_settings

pytestmark = pytest.mark.db
HOUR = 3600


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection, with_settings(scheduler={"security_time": 0}))
    made.add_nodes("n1", "n2")
    return made


def at(cluster: SmallCluster, hours: float) -> datetime:
    return (cluster.now() + timedelta(hours=hours)).replace(microsecond=0)


def reserve(cluster: SmallCluster, begin: float, end: float | None = None, **values: Any) -> int:
    """Reserve both nodes for an hour from ``begin`` on (hours from now), or at a time until ``end``."""
    until = None if end is None else at(cluster, end)
    return cluster.submit("/nodes=2,walltime=1:0:0", reservation=at(cluster, begin), until=until, **values)


def start(cluster: SmallCluster, job: int) -> float:
    """Return when a reservation is to start, in hours from now."""
    found: datetime = cluster.job(job, "reservation_start")
    return round((found - cluster.now()).total_seconds() / HOUR, 1)


def test_a_reservation_moves_inside_its_window_for_a_strict_one(cluster: SmallCluster) -> None:
    flexible = reserve(cluster, 2, 6)
    cluster.settle()
    assert start(cluster, flexible) == 2
    strict = reserve(cluster, 2)
    cluster.settle()
    assert (start(cluster, strict), start(cluster, flexible)) == (2, 3)
    assert cluster.states([strict, flexible]) == ["Waiting", "Waiting"]
    assert cluster.events(flexible) == ["RESERVATION_MOVED"]
    held = "SELECT job_id, count(*) FROM reserved_resources GROUP BY 1 ORDER BY 1"
    assert cluster.sql(held) == [(flexible, 4), (strict, 4)]


def test_who_is_refused_is_offered_starts_before_and_after(cluster: SmallCluster) -> None:
    taken = reserve(cluster, 2)
    cluster.settle()
    refused = reserve(cluster, 2.1)
    cluster.settle()
    assert cluster.state(refused) == "Error"
    rows = cluster.sql(
        "SELECT extract(epoch FROM o.start_time - j.reservation_start)::int, round(phi::numeric, 1)::float8"
        " FROM reservation_offers o, jobs j WHERE o.job_id = %s AND j.job_id = %s ORDER BY phi",
        refused,
        taken,
    )
    assert rows == [(HOUR, 0.9), (-HOUR, 1.1)]


def test_a_reservation_moves_forward_when_another_is_deleted(cluster: SmallCluster) -> None:
    first = reserve(cluster, 2)
    flexible = reserve(cluster, 2, 6)
    cluster.settle()
    assert start(cluster, flexible) == 3
    cluster.delete(first)
    cluster.settle()
    assert start(cluster, flexible) == 2
