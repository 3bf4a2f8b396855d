"""A broker hears of an early end where its part waits for a date: when processors idle, and only then."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.harness.brokers_door import BrokersDoor, brokers_door, small_cluster
from tests.harness.small_cluster import Connection
from tests.harness.waiting import until

pytestmark = [pytest.mark.db, pytest.mark.kept]


@pytest.fixture
def door(connection: Connection, dsn: str) -> Iterator[BrokersDoor]:
    """A cluster of four cores that a local job holds, and a part of all of it in three hours."""
    with brokers_door(dsn, small_cluster(connection, "n1", "n2")) as made:
        made.cluster.submit("/core=4,walltime=1:0:0")
        made.cluster.settle()
        begin = float(int(time.time()) + 10_800)
        made.prepare("t1", made.part("p1", "reserved", 4, begin=begin))
        made.ask("commit", transaction="t1", begin=begin)
        yield made


def end_early(door: BrokersDoor) -> None:
    """End the job that runs, and let passes give its place to others."""
    ((job,),) = door.cluster.sql("SELECT job_id FROM jobs WHERE state = 'Running'")
    door.cluster.end(job)
    door.cluster.settle()
    until(lambda: door.cluster.plan() and door.cluster.state(job) == "Terminated", "the end of the job")
    door.cluster.settle()


def test_it_is_told_when_processors_idle(door: BrokersDoor) -> None:
    assert door.events() == []
    end_early(door)
    assert door.events() == [("p1", "idle")]
    assert door.events() == [("p1", "idle")], "it is told once in a while"


def test_it_is_not_told_while_those_who_wait_have_them(door: BrokersDoor) -> None:
    door.cluster.submit("/core=4,walltime=0:30:0")
    end_early(door)
    assert door.cluster.sql("SELECT count(*) FROM jobs WHERE state = 'Running'") == [(1,)]
    assert door.events() == []
    end_early(door)
    assert door.events() == [("p1", "idle")]
