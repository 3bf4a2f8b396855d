"""What a broker learns of a cluster's queues, and whom it may have give way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.brokers_door import BrokersDoor, brokers_door, small_cluster
from tests.harness.small_cluster import Connection

pytestmark = [pytest.mark.db, pytest.mark.kept]


@pytest.fixture
def door(connection: Connection, dsn: str) -> Iterator[BrokersDoor]:
    with brokers_door(dsn, small_cluster(connection, "n1", "n2"), evict="besteffort,admin") as made:
        yield made


def in_hours(ends: Any) -> list[float | None]:
    """Return ends in hours from now."""
    return [None if end is None else round((end - time.time()) / 3600, 1) for end in ends]


def test_estimates_are_those_of_the_plan_and_change_nothing(door: BrokersDoor) -> None:
    door.cluster.submit("/core=4,walltime=1:0:0")
    door.cluster.settle()
    door.queued("p1", 4, 7200)
    door.queued("p2", 4, 3600)
    small, large = door.request(2), door.request(4, 7200)
    before = door.cluster.sql("SELECT count(*) FROM jobs")
    assert in_hours(door.ask("estimate", requests=["p1", "p2", small, large])) == [3.0, 4.0, 5.0, 6.0]
    assert in_hours(door.ask("estimate", requests=["p2", small], without=["p1"])) == [2.0, 3.0]
    assert in_hours(door.ask("estimate", requests=["gone", door.request(5)])) == [0.0, None]
    assert door.cluster.sql("SELECT count(*) FROM jobs") == before


def test_requests_do_not_count_each_other_but_those_that_join_first(door: BrokersDoor) -> None:
    one = door.request(4)
    assert in_hours(door.ask("estimate", requests=[one, one])) == [1.0, 1.0]
    assert in_hours(door.ask("estimate", requests=[one], joined=[one])) == [2.0]
    assert in_hours(door.ask("estimate", requests=[one], joined=[one, one], age=60)) == [3.0]
    assert in_hours(door.ask("estimate_in_turn", request=door.request(2), count=5)) == [1.0, 1.0, 2.0, 2.0, 3.0]


def test_what_is_held_is_estimated_as_if_it_went_on(door: BrokersDoor) -> None:
    door.queued("p1", 4)
    door.queued("p2", 4)
    door.prepare("t1", door.part("p1", "withdrawn"))
    door.prepare("t2", door.part("p3", "queued", 4))
    assert in_hours(door.ask("estimate", requests=["p2"])) == [1.0]
    assert in_hours(door.ask("estimate", requests=["p1", "p3"])) == [1.0, 2.0]


def test_a_request_that_is_refused_says_why_when_it_is_alone(door: BrokersDoor) -> None:
    unknown = door.request(queue="nowhere")
    assert "nowhere" in door.ask("estimate", requests=[unknown])["message"]
    assert in_hours(door.ask("estimate", requests=[unknown, door.request()])) == [None, 1.0]
    assert door.ask("idle", request=unknown) == 0


def test_idle_processors_are_those_that_stay_idle_and_fit(door: BrokersDoor) -> None:
    assert door.ask("idle", request=door.request()) == 4
    assert door.ask("idle", request=door.request(properties="network_address = 'n1'")) == 2
    door.cluster.submit("/core=1,walltime=9:0:0")
    door.cluster.settle()
    assert door.ask("idle", request=door.request()) == 3
    begin = time.time() + 7200
    assert "job" in door.prepare("t1", door.part("r1", "reserved", 2, begin=begin))
    assert door.ask("idle", request=door.request(walltime=3600)) == 3
    assert door.ask("idle", request=door.request(walltime=7200)) == 1


def test_idle_processors_are_counted_by_what_a_request_asks_for(door: BrokersDoor) -> None:
    pairs, nodes = door.request(2, resources="/nodes=1/core=2"), door.request(1, resources="/nodes=1")
    assert door.ask("idle", request=pairs) == 4
    assert door.ask("idle", request=nodes) == 2
    door.cluster.submit("/core=1")
    door.cluster.settle()
    assert door.ask("idle", request=door.request()) == 3
    assert door.ask("idle", request=pairs) == 2
    assert door.ask("idle", request=nodes) == 1
    assert door.ask("idle", request=door.request(3, resources="/nodes=1/core=3")) == 0


def test_local_jobs_give_way_as_far_as_the_owner_lets_them_the_latest_first(door: BrokersDoor) -> None:
    door.cluster.submit("/core=1")
    first = door.cluster.submit("/core=1", queue="admin")
    part = door.queued("p1")
    door.cluster.settle()
    second = door.cluster.submit("/core=1", types=("besteffort",))
    door.cluster.settle()
    assert door.cluster.states([first, second, part]) == ["Running"] * 3
    giving_way = door.ask("evictable", request=door.request())
    assert [(one["job"], one["procs"]) for one in giving_way] == [(str(second), 1), (str(first), 1)]
    assert door.ask("evict", transaction="t1", request=door.request(3), procs=3) == []
    assert door.cluster.sql("SELECT count(*) FROM kill_requests") == [(0,)]
    assert door.ask("evict", transaction="t1", request=door.request(), procs=2) == [str(second), str(first)]
    waiting = door.cluster.submit("/core=1")
    claimed = door.claim("t1", 2)
    assert "job" in claimed, claimed
    door.held(int(claimed["job"]))
    assert door.cluster.states([first, second, waiting]) == ["Error", "Error", "Waiting"]
    assert door.cluster.job(first, "message").startswith("killed: evicted: a job on several clusters needs its place")
    assert "EVICTED" in door.cluster.events(first)


def test_nobody_gives_way_unless_the_owner_says_so(connection: Connection, dsn: str) -> None:
    with brokers_door(dsn, small_cluster(connection, "n1")) as door:
        door.cluster.submit("/core=1", types=("besteffort",))
        door.cluster.settle()
        assert door.ask("evictable", request=door.request()) == []
        assert door.ask("evict", transaction="t1", request=door.request(), procs=1) == []


def test_free_processors_over_time_are_those_that_the_last_pass_leaves(door: BrokersDoor) -> None:
    now = int(time.time())
    door.cluster.submit("/core=1,walltime=1:0:0")
    door.cluster.submit("/core=4,walltime=1:0:0")
    door.cluster.submit("/core=2,walltime=9:0:0", queue="besteffort", types=("besteffort",))
    door.cluster.settle()
    date = now + 6 * 3600
    assert "job" in door.prepare("t1", door.part("r1", "reserved", 3, begin=date))
    asked: dict[str, Any] = {"begin": now, "end": now + 86_400}
    told = door.ask("slots", request=door.request(), **asked)
    found = [(round((one["begin"] - now) / 3600), one["procs"]) for one in told]
    assert found == [(0, 3), (1, 0), (2, 4), (6, 1), (7, 4)]
    without = door.ask("slots", request=door.request(), without=["r1"], **asked)
    assert [one["procs"] for one in without] == [3, 0, 4]
    door.cluster.sql("UPDATE queues SET gives_way_to = '{admin}' WHERE queue_name = 'default'")
    above = door.request(queue="admin")
    seen = [one["procs"] for one in door.ask("slots", request=above, **asked)]
    assert seen == [4, 1, 4], "they all give way to it, but for what is promised"
    door.cluster.sql("UPDATE queues SET gives_way_to = '{}' WHERE queue_name = 'default'")
    on_a_node = door.request(properties="network_address = 'n1'")
    assert max(one["procs"] for one in door.ask("slots", request=on_a_node, **asked)) == 2
    assert door.ask("slots", request=door.request(queue="nowhere"), **asked) == [{"begin": now, "procs": 0}]
