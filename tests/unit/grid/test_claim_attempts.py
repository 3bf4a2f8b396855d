"""All clusters hold processors for a job, or none does for long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from oarpy.grid.broker.coallocated.claim_attempts import ClaimPlan, ClaimResult, Eviction, PartClaim, attempt
from oarpy.grid.broker.coallocated.soundings import ClusterSounding, RoomAsked, read_clock, sound, try_due
from oarpy.grid.calls.parts import ClusterAbilities, ClusterDescription, EvictableJob, GridPart, PartRequest
from oarpy.grid.calls.table import CallRefused, Cluster, ClusterSilent, Describe
from oarpy.grid.clusters.virtual.cluster import SimulatedCluster, VirtualClock
from oarpy.grid.core.exchanges import LocalJob
from oarpy.model.errors import OarpyError
from tests.harness.inline_calls import answer_instead, carry_out

DEADLINE = 1060.0
REQUEST = PartRequest("ann", "/core=4", 4, 100)
ASKED = RoomAsked(REQUEST, DEADLINE)


class _Site:
    """Two clusters of 8 processors at the instant 1000."""

    def __init__(self) -> None:
        self.clock = VirtualClock(1000)
        self.north = SimulatedCluster("north", 8, clock=self.clock)
        self.south = SimulatedCluster("south", 8, clock=self.clock)
        self.providers: dict[str, Cluster] = {"north": self.north, "south": self.south}

    def claim(self, *evictions: Eviction, limit: float = DEADLINE) -> ClaimResult:
        claims = [PartClaim(name, GridPart(f"g1.{name}", "claim", REQUEST, begin=DEADLINE)) for name in self.providers]
        plan = ClaimPlan("t1", claims, lambda: DEADLINE + 3 - self.clock(), limit, evictions)
        return carry_out(attempt(plan, self.clock), self.providers, self.clock)

    def calls(self) -> dict[str, list[str]]:
        return {"north": self.north.calls, "south": self.south.calls}


@pytest.fixture
def site() -> _Site:
    return _Site()


def test_all_parts_are_held(site: _Site) -> None:
    result = site.claim()
    assert sorted(result.held) == ["g1.north", "g1.south"]
    assert result.failure == ""
    assert site.north.states() | site.south.states() == {"g1.north": "claimed", "g1.south": "claimed"}


def test_what_is_held_lapses_if_the_broker_is_not_heard_of_again(site: _Site) -> None:
    site.claim()
    site.clock.now = DEADLINE + 3
    assert site.north.states() | site.south.states() == {}


def test_one_refusal_fails_the_claim_and_names_the_cluster(site: _Site) -> None:
    site.south.submit("local", 5, 500)
    result = site.claim()
    assert result.failure == "south: 4 processors are not idle on cluster 'south'"


def test_nobody_is_evicted_when_a_part_has_no_room_elsewhere(site: _Site) -> None:
    site.south.submit("victim", 8, 500, evictable=True)
    site.north.submit("other", 8, 500)
    result = site.claim(Eviction("south", REQUEST, 4))
    assert result.failure.startswith("north: ")
    assert site.south.states() == {"victim": "running"}


def test_nobody_is_evicted_after_a_cluster_that_cannot_free_enough(site: _Site) -> None:
    site.north.submit("too little", 8, 500)
    site.south.submit("victim", 8, 500, evictable=True)
    result = site.claim(Eviction("north", REQUEST, 4), Eviction("south", REQUEST, 4))
    assert result.failure == "north: too few local jobs may give way"
    assert site.south.states() == {"victim": "running"}


def test_a_part_is_held_when_its_victims_have_gone(site: _Site) -> None:
    site.south.submit("victim", 8, 500, evictable=True)
    site.south.faults.refuse("prepare", "its victims still end")
    result = site.claim(Eviction("south", REQUEST, 4))
    assert result.failure == ""
    assert site.south.states() == {"g1.south": "claimed"}
    assert site.clock() == 1000.5


def test_an_answer_that_was_lost_is_asked_for_again(site: _Site) -> None:
    site.south.submit("victim", 8, 500, evictable=True)
    site.south.faults.silent("prepare", done=True)
    assert site.claim(Eviction("south", REQUEST, 4)).failure == ""
    assert site.south.calls.count("prepare") == 1


def test_victims_that_do_not_end_in_time_fail_the_claim(site: _Site) -> None:
    site.south.submit("victim", 8, 500, evictable=True)
    for _ in range(10):
        site.south.faults.refuse("prepare", "its victims still end")
    result = site.claim(Eviction("south", REQUEST, 4), limit=1002)
    assert "its victims still end" in result.failure
    assert site.clock() < 1002


@pytest.mark.parametrize("done", [False, True])
def test_a_silent_cluster_fails_the_claim(site: _Site, done: bool) -> None:
    site.south.faults.silent("prepare", done=done)
    assert site.claim().failure == "south: cluster 'south' does not answer"


def test_a_silent_eviction_fails_the_claim(site: _Site) -> None:
    site.south.submit("victim", 8, 500, evictable=True)
    site.south.faults.silent("evict")
    assert "south" in site.claim(Eviction("south", REQUEST, 4)).failure
    assert site.south.calls == []


def test_a_cluster_tells_its_idle_processors_and_who_may_give_way(site: _Site) -> None:
    site.south.submit("local", 5, 500, evictable=True)
    told = sound(site.south, [replace(ASKED, evicting=True), ASKED], site.clock, 0.5)
    assert told == [ClusterSounding(3, (EvictableJob("1", 5),)), ClusterSounding(3)]
    assert site.south.calls == ["describe", "evictable", "idle", "idle"]


def test_a_cluster_that_refuses_one_request_tells_its_room_for_the_others(site: _Site) -> None:
    site.south.faults.refuse("idle", "no grant for ann")
    refusal, told = sound(site.south, [ASKED, replace(ASKED, deadline=2000)], site.clock, 0.5)
    assert "no grant for ann" in str(refusal)
    assert told == ClusterSounding(8)


@pytest.mark.parametrize("off", [-0.6, 0.6])
def test_a_cluster_whose_clock_is_off_is_not_used(site: _Site, off: float) -> None:
    site.south.clock_off = off
    with pytest.raises(CallRefused, match="clock of cluster south"):
        sound(site.south, [ASKED], site.clock, 0.5)


def test_a_cluster_that_cannot_hold_processors_is_not_used() -> None:
    plain = SimulatedCluster("plain", 8, clock=VirtualClock(), abilities=ClusterAbilities(claim=False))
    with pytest.raises(CallRefused, match="cannot hold"):
        sound(plain, [ASKED], VirtualClock(), 0.5)


@pytest.mark.parametrize(
    ("ahead", "seconds", "found"),
    [(3, [4, 0], 3), (3, [4, 0.4], 2.8), (3, [4, 4, 4], 0), (5, [4, 4, 4], 1), (-1, [4, 4, 4], -1)],
)
def test_a_clock_is_not_read_from_a_slow_answer(site: _Site, ahead: float, seconds: list[float], found: float) -> None:
    left = list(seconds)

    def slow(call: Describe, real: Callable[[Describe], ClusterDescription]) -> ClusterDescription:
        told = real(call)
        site.clock.advance(left.pop(0))
        return told

    site.south.clock_off = ahead
    answer_instead(site.south, Describe, slow)
    assert read_clock(site.south, site.clock, 0.5)[1] == pytest.approx(found)
    assert not left


def test_clusters_that_do_not_answer_have_no_room() -> None:
    answers: dict[str, ClusterSounding | OarpyError] = {
        "north": ClusterSounding(3, (EvictableJob("7", 2),)),
        "south": ClusterSilent("cluster south does not answer"),
    }
    due = try_due(1, answers)
    assert due.idle == {"north": 3, "south": 0}
    assert due.evictable == {"north": [LocalJob("north:7", 2)]}
