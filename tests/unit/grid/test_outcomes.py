"""A cluster is told how a transaction ended until it is known what became of its part."""

from __future__ import annotations

import pytest

from oarpy.grid.broker.outcomes import TransactionEnd, tell
from oarpy.grid.calls.parts import GridPart, PartRequest
from oarpy.grid.calls.table import CallRefused, Prepare
from oarpy.grid.clusters.virtual.cluster import OrderedFault, SimulatedCluster, VirtualClock
from tests.harness.inline_calls import carry_out

COMMIT = TransactionEnd("t1", "north", "commit", 1060)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(1000)


@pytest.fixture
def north(clock: VirtualClock) -> SimulatedCluster:
    """A cluster that holds a part until 1100."""
    cluster = SimulatedCluster("north", 8, clock=clock)
    part = GridPart("p1", "claim", PartRequest("ann", "/core=2", 2, 60), begin=1060)
    cluster.ask(Prepare("t1", part, 100, key="k"))
    return cluster


def test_a_silent_cluster_is_told_again(north: SimulatedCluster, clock: VirtualClock) -> None:
    north.faults.silent("commit")
    north.faults.silent("commit", done=True)
    assert carry_out(tell(COMMIT), {"north": north}, clock) == ""
    assert (clock(), north.calls) == (1002, ["prepare", "commit"])


def test_what_is_not_committed_is_not_held_any_longer(north: SimulatedCluster, clock: VirtualClock) -> None:
    north.faults.refuse("commit", "a node died")
    assert carry_out(tell(COMMIT), {"north": north}, clock) == "cluster 'north' refuses: a node died"
    assert north.states() == {}


def test_a_refusal_of_what_was_done_is_found_out(north: SimulatedCluster, clock: VirtualClock) -> None:
    north.faults.strike(OrderedFault("commit", CallRefused("an odd error"), done=True))
    assert carry_out(tell(COMMIT), {"north": north}, clock) == ""
    clock.now = 1060
    assert north.states() == {"p1": "running"}


def test_an_abort_after_a_commit_is_refused(north: SimulatedCluster, clock: VirtualClock) -> None:
    carry_out(tell(COMMIT), {"north": north}, clock)
    assert "committed" in carry_out(tell(TransactionEnd("t1", "north", "abort")), {"north": north}, clock)
