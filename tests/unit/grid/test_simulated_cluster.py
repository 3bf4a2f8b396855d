"""The cluster in memory: faults strike when they are ordered, and time lets jobs begin, end and lapse."""

from __future__ import annotations

import pytest

from oarpy.grid.calls.parts import GridPart, PartRequest
from oarpy.grid.calls.table import (
    Abort,
    CallRefused,
    Cluster,
    ClusterSilent,
    Commit,
    Describe,
    Estimate,
    Evict,
    Prepare,
)
from oarpy.grid.clusters.virtual.cluster import OrderedFault, SimulatedCluster, VirtualClock
from tests.harness.cluster_conformance import part_events


def request(procs: int, walltime: float = 60) -> PartRequest:
    return PartRequest("ann", f"/core={procs}", procs, walltime)


def north(clock: VirtualClock, policy: str = "conservative") -> SimulatedCluster:
    assert policy in ("fcfs", "conservative")
    return SimulatedCluster("north", 8, clock=clock, policy=policy, sleep=clock.advance)  # type: ignore[arg-type]


def kinds(cluster: SimulatedCluster) -> list[tuple[str, str, float]]:
    return [(event.part, event.kind, event.at) for event in part_events(cluster)]


def test_a_silent_call_is_done_or_not_as_ordered() -> None:
    cluster: Cluster = (simulated := north(VirtualClock()))
    simulated.faults.silent("prepare")
    simulated.faults.silent("prepare", done=True)
    part = GridPart("p", "queued", request(8))
    for left in (0, 1):
        with pytest.raises(ClusterSilent, match="'north' does not answer"):
            cluster.ask(Prepare("t", part, 10, key="k"))
        assert len(simulated.states()) == left
    assert cluster.ask(Prepare("t", part, 10, key="k")).job == "1"
    assert simulated.calls.count("prepare") == 1


def test_a_cut_lasts_and_a_refusal_does_nothing() -> None:
    cluster = north(VirtualClock())
    cluster.faults.cut = True
    for _ in range(2):
        with pytest.raises(ClusterSilent):
            cluster.ask(Describe())
    cluster.faults.cut = False
    cluster.faults.refuse("prepare", "closed")
    with pytest.raises(CallRefused, match="'north' refuses: closed"):
        cluster.ask(Prepare("t", GridPart("p", "queued", request(8)), 10, key="k"))
    assert cluster.states() == {}
    cluster.faults.strike(OrderedFault("describe", KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        cluster.ask(Describe())
    assert cluster.ask(Describe()).procs == 8


def test_slow_calls_take_time_and_a_wrong_clock_shows() -> None:
    clock = VirtualClock(100)
    cluster = north(clock)
    cluster.faults.slow("describe", seconds=7)
    cluster.clock_off = 3
    assert cluster.ask(Describe()).clock == 110
    assert clock.now == 107


def test_what_was_due_meanwhile_happened_in_its_order() -> None:
    clock = VirtualClock()
    cluster = north(clock)
    cluster.submit("local", 8, 50, run=20)
    cluster.ask(Prepare("t1", GridPart("first", "queued", request(8)), 1000, key="k1"))
    cluster.ask(Commit("t1", key="k2"))
    cluster.ask(Prepare("t2", GridPart("second", "queued", request(4)), 30, key="k3"))
    clock.advance(1000)
    assert kinds(cluster) == [("first", "started", 20), ("second", "lapsed", 30), ("first", "ended", 80)]
    assert part_events(cluster, 1)[0].part == "second"
    assert part_events(cluster)[0].hosts == tuple(f"north-{number}" for number in range(8))


def test_a_program_ends_when_it_is_told_to() -> None:
    cluster = north(VirtualClock())
    cluster.ask(Prepare("t1", GridPart("p", "queued", request(8)), 10, key="k1"))
    cluster.ask(Commit("t1", key="k2"))
    cluster.finish("p", status=3)
    assert part_events(cluster)[-1].status == 3
    assert cluster.states() == {}


@pytest.mark.parametrize(("policy", "end"), [("fcfs", 60 + 30 + 10), ("conservative", 10)])
def test_policies_place_small_jobs_in_gaps_or_not(policy: str, end: float) -> None:
    cluster = north(VirtualClock(), policy)
    cluster.submit("running", 6, 60)
    cluster.submit("waiting", 8, 30)
    assert cluster.ask(Estimate([request(2, 10)])) == [end]
    assert cluster.ask(Estimate([request(9, 10)])) == [float("inf")]


def test_room_that_was_made_goes_to_the_part_it_was_made_for() -> None:
    clock = VirtualClock()
    cluster = north(clock)
    cluster.submit("victim", 8, 500, evictable=True)
    cluster.submit("next", 8, 500)
    assert cluster.ask(Evict("t", request(6), 6, key="k1")) == ["1"]
    assert cluster.states() == {"next": "waiting", "room for t": "claimed"}
    cluster.ask(Prepare("t", GridPart("p", "claim", request(6), begin=100), 10, key="k2"))
    assert cluster.states() == {"next": "waiting", "p": "claimed"}
    cluster.ask(Abort("t", key="k3"))
    assert cluster.states() == {"next": "running"}


def test_room_is_made_besides_what_is_idle_which_nobody_else_gets_either() -> None:
    cluster = north(VirtualClock())
    cluster.submit("victim", 6, 500, evictable=True)
    cluster.submit("next", 3, 500)
    assert cluster.ask(Evict("t", request(3), 4, key="k1")) == ["1"]
    assert cluster.states() == {"next": "waiting", "room for t": "claimed"}
    for name in ("p", "q"):
        cluster.ask(Prepare("t", GridPart(name, "claim", request(3), begin=100), 10, key=name))
        assert cluster.states()["next"] == "waiting"
    assert cluster.states() == {"next": "waiting", "p": "claimed", "q": "claimed"}
