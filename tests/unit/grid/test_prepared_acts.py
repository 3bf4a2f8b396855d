"""All clusters prepare their acts, or what some have prepared does not stay for long."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from random import Random

import pytest

from oarpy.grid.broker.acts import Act, Evict, Freeze, Hold, Place, Prepared, Terms, prepare
from oarpy.grid.broker.coallocated.cluster_room import ClusterRoom, RoomAsked, read_clock, sound, try_due
from oarpy.grid.broker.conversations import CallBatch, Conversation, Conversations
from oarpy.grid.calls.parts import ClusterAbilities, ClusterDescription, EvictableJob, GridPart, PartRequest
from oarpy.grid.calls.table import Abort, CallRefused, Cluster, ClusterSilent, Commit, Describe
from oarpy.grid.clusters.virtual.cluster import SimulatedCluster, VirtualClock
from oarpy.grid.core.exchanges import LocalJob
from oarpy.model.errors import OarpyError
from tests.harness.inline_calls import answer_instead, carry_out, inline_calls

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

    def claim(self, *evictions: Evict, limit: float = DEADLINE) -> Prepared:
        claims = [_claim("1", name) for name in self.providers]
        terms = Terms(lambda: DEADLINE + 3 - self.clock(), limit=limit)
        conversation = prepare("t1", [*claims, *evictions], terms, self.clock, Random(1))
        return carry_out(conversation, self.providers, self.clock)

    def calls(self) -> dict[str, list[str]]:
        return {"north": self.north.calls, "south": self.south.calls}


def _claim(job: str, cluster: str) -> Hold:
    return Hold(int(job), 0, cluster, GridPart(f"g{job}.{cluster}", "claim", REQUEST, begin=DEADLINE))


@pytest.fixture
def site() -> _Site:
    return _Site()


def test_all_parts_are_held(site: _Site) -> None:
    result = site.claim()
    assert sorted(result.parts) == ["g1.north", "g1.south"]
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
    result = site.claim(Evict("south", REQUEST, 4))
    assert result.failure.startswith("north: ")
    assert site.south.states() == {"victim": "running"}


def test_nobody_is_evicted_after_a_cluster_that_cannot_free_enough(site: _Site) -> None:
    site.north.submit("too little", 8, 500)
    site.south.submit("victim", 8, 500, evictable=True)
    result = site.claim(Evict("north", REQUEST, 4), Evict("south", REQUEST, 4))
    assert result.failure == "north: too few local jobs may give way"
    assert site.south.states() == {"victim": "running"}


def test_a_part_is_held_when_its_victims_have_gone(site: _Site) -> None:
    site.south.submit("victim", 8, 500, evictable=True)
    site.south.faults.refuse("prepare", "its victims still end")
    result = site.claim(Evict("south", REQUEST, 4))
    assert result.failure == ""
    assert site.south.states() == {"g1.south": "claimed"}
    assert site.clock() == 1000.5


def test_an_answer_that_was_lost_is_asked_for_again(site: _Site) -> None:
    site.south.submit("victim", 8, 500, evictable=True)
    site.south.faults.silent("prepare", done=True)
    assert site.claim(Evict("south", REQUEST, 4)).failure == ""
    assert site.south.calls.count("prepare") == 1


def test_victims_that_do_not_end_in_time_fail_the_claim(site: _Site) -> None:
    site.south.submit("victim", 8, 500, evictable=True)
    for _ in range(10):
        site.south.faults.refuse("prepare", "its victims still end")
    result = site.claim(Evict("south", REQUEST, 4), limit=1002)
    assert "its victims still end" in result.failure
    assert site.clock() < 1002


@pytest.mark.parametrize("done", [False, True])
def test_a_silent_cluster_fails_the_claim(site: _Site, done: bool) -> None:
    site.south.faults.silent("prepare", done=done)
    assert site.claim().failure == "south: cluster 'south' does not answer"


def test_a_silent_eviction_fails_the_claim(site: _Site) -> None:
    site.south.submit("victim", 8, 500, evictable=True)
    site.south.faults.silent("evict")
    assert "south" in site.claim(Evict("south", REQUEST, 4)).failure
    assert site.south.calls == []


def test_a_cluster_tells_its_idle_processors_and_who_may_give_way(site: _Site) -> None:
    site.south.submit("local", 5, 500, evictable=True)
    told = sound(site.south, [replace(ASKED, evicting=True), ASKED], site.clock, 0.5)
    assert told == [ClusterRoom(3, (EvictableJob("1", 5),)), ClusterRoom(3)]
    assert site.south.calls == ["describe", "evictable", "idle", "idle"]


def test_a_cluster_that_refuses_one_request_tells_its_room_for_the_others(site: _Site) -> None:
    site.south.faults.refuse("idle", "no grant for ann")
    refusal, told = sound(site.south, [ASKED, replace(ASKED, deadline=2000)], site.clock, 0.5)
    assert "no grant for ann" in str(refusal)
    assert told == ClusterRoom(8)


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
    answers: dict[str, ClusterRoom | OarpyError] = {
        "north": ClusterRoom(3, (EvictableJob("7", 2),)),
        "south": ClusterSilent("cluster south does not answer"),
    }
    due = try_due(1, answers)
    assert due.idle == {"north": 3, "south": 0}
    assert due.evictable == {"north": [LocalJob("north:7", 2)]}


def _two_brokers(site: _Site, rounds: int) -> list[Prepared]:
    """Two brokers want all of the same two clusters, in different orders; every call takes its turn."""
    whole = PartRequest("ann", "/core=8", 8, 100)
    terms = Terms(lambda: 100.0, rounds=rounds)
    conversations = Conversations[Prepared](inline_calls(site.providers), site.clock)
    for job, names in (("1", ["north", "south"]), ("2", ["south", "north"])):
        holds = [Hold(1, 0, name, GridPart(f"g{job}.{name}", "claim", whole, begin=DEADLINE)) for name in names]
        conversations.begin(job, _slowly(prepare(f"t{job}", holds, terms, site.clock, Random(int(job)))))
    found: dict[Hashable, Prepared] = {}
    while len(found) < 2:
        found |= dict(conversations.go_on())
        site.clock.now = max(site.clock.now, conversations.wake_at() or 0)
    return [found["1"], found["2"]]


def _slowly(conversation: Conversation[Prepared]) -> Conversation[Prepared]:
    """Make the calls of a conversation one by one, each a second after the other."""
    batch = next(conversation)
    while True:
        answers: list[object] = []
        for place, call in enumerate(batch.calls):
            answers += yield CallBatch([call], pause=batch.pause + place)
        try:
            batch = conversation.send(answers)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def test_of_two_brokers_that_hold_in_one_order_the_first_gets_all(site: _Site) -> None:
    together = _two_brokers(site, rounds=1)
    assert [len(one.parts) for one in together] == [1, 1], "each keeps the other from what it lacks"
    ordered = _two_brokers(_Site(), rounds=3)
    assert [sorted(one.parts) for one in ordered] == [["g1.north", "g1.south"], []]
    assert ordered[1].failure == "north: 8 processors are not idle on cluster 'north'"


def test_a_cluster_that_refuses_is_asked_again_after_a_pause_by_chance(site: _Site) -> None:
    holds = [_claim("1", "south"), _claim("1", "north")]
    for count, failure in ((2, ""), (3, "north: cluster 'north' refuses: not now")):
        for _ in range(count):
            site.north.faults.refuse("prepare")
        conversation = prepare(f"t{count}", holds, Terms(lambda: 100.0, rounds=3), site.clock, Random(1))
        began = site.clock()
        assert carry_out(conversation, site.providers, site.clock).failure == failure
        assert 0.4 <= site.clock() - began <= 2
        for cluster in (site.north, site.south):
            cluster.ask(Abort(f"t{count}", key=f"k{count}"))


def test_a_silent_cluster_is_not_asked_in_more_rounds(site: _Site) -> None:
    site.north.faults.silent("prepare")
    conversation = prepare("t1", [_claim("1", "north")], Terms(lambda: 100.0, rounds=3), site.clock, Random(1))
    assert carry_out(conversation, site.providers, site.clock).failure == "north: cluster 'north' does not answer"


def test_acts_of_all_kinds_are_prepared_together(site: _Site) -> None:
    site.north.submit("local", 8, 500)
    site.south.submit("victim", 8, 500, evictable=True)
    conversation = prepare("t1", [_place("a")], Terms(lambda: 100.0), site.clock, Random(1))
    carry_out(conversation, site.providers, site.clock)
    site.north.ask(Commit("t1", key="k"))
    acts: list[Act] = [
        Freeze("north", "a", REQUEST),
        *(_place(name) for name in "bc"),
        _claim("1", "south"),
        Evict("south", REQUEST, 4),
    ]
    conversation = prepare("t2", acts, Terms(lambda: 100.0, limit=2000), site.clock, Random(1))
    found = carry_out(conversation, site.providers, site.clock)
    assert (sorted(found.parts), found.failure) == (["a", "b", "c", "g1.south"], "")
    assert site.calls()["north"].count("prepare") == 4
    assert site.north.states() == {"local": "running", "a": "frozen", "b": "held", "c": "held"}
    assert site.south.states() == {"g1.south": "claimed"}


def _place(name: str) -> Place:
    return Place(1, 0, "north", GridPart(name, "queued", REQUEST))
