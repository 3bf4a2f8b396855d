"""Plans that change while offers are open: brokers hear of them, and ask anew before they give tasks to clusters."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeAlias

import psycopg
import pytest
from msgspec import structs

from oarpy.grid.broker.conversations import ClusterCall
from oarpy.grid.calls.parts import ClusterEvent, PlanChanged
from oarpy.grid.calls.table import Events
from oarpy.model.states import GridJobState
from oarpy.store.grid import bags, clusters
from tests.harness.claim_rounds import ClaimRounds
from tests.harness.inline_calls import InlineConnections, answer_instead

pytestmark = [pytest.mark.db, pytest.mark.kept]
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"


class SlowOffers:
    """The claimer's way to clusters, on which the offers of one cluster come when a test says so."""

    def __init__(self, rounds: ClaimRounds, slow: str) -> None:
        way = rounds._claimer._connections
        assert isinstance(way, InlineConnections)
        self._submit, way._submit = way._submit, self.submit
        self._slow = slow
        self._held: list[tuple[Future[object], Future[object]]] = []

    def submit(self, call: ClusterCall) -> Future[object]:
        """Make a call; hold its answer back if it has offers of the slow cluster."""
        made = self._submit(call)
        if call.cluster != self._slow or "_question" not in getattr(call.asked, "__qualname__", ""):
            return made
        answer: Future[object] = Future()
        self._held.append((answer, made))
        return answer

    def come(self) -> int:
        """Let the offers come that are held back; return how many."""
        held, self._held = self._held, []
        for answer, made in held:
            answer.set_result(made.result())
        return len(held)


class Ways:
    """Loses, doubles and delays what a cluster tells of its plans; other events come as they are."""

    def __init__(self, rounds: ClaimRounds, name: str, chance: random.Random) -> None:
        self._chance, self._stream, self._late = chance, list[ClusterEvent](), list[ClusterEvent]()
        self._heard, self.seen = 0, Counter[str]()
        answer_instead(rounds.clusters[name], Events, self._answer)

    def _answer(self, call: Events, real: Callable[[Any], Any]) -> list[ClusterEvent]:
        told: list[ClusterEvent] = list(real(Events(self._heard)))
        self._heard += len(told)
        while self._late and self._chance.random() < 0.5:
            self._stream.append(self._late.pop(self._chance.randrange(len(self._late))))
        for event in told:
            self._stream += self._come(event) if isinstance(event, PlanChanged) else [event]
        self._stream = [structs.replace(event, number=place) for place, event in enumerate(self._stream, 1)]
        return self._stream[call.after :]

    def _come(self, event: PlanChanged) -> list[ClusterEvent]:
        fate = self._chance.choice(("comes", "is lost", "comes twice", "is late"))
        self.seen[fate] += 1
        if fate == "is late":
            self._late.append(event)
        return [event] * {"comes": 1, "comes twice": 2}.get(fate, 0)


@pytest.fixture
def rounds(connection: Connection) -> ClaimRounds:
    made = ClaimRounds(connection, disclose="load")
    made.hear()  # of what clusters can do
    return made


def asked(rounds: ClaimRounds, name: str) -> Counter[str]:
    """The calls that a cluster carried out."""
    return Counter(rounds.clusters[name].calls)


def plan_of(rounds: ClaimRounds, name: str) -> int:
    """The newest plan of a cluster that its broker heard of."""
    return next(row.plan for row in clusters.every(rounds.connection) if row.name == name)


def local(rounds: ClaimRounds, name: str, walltime: float = 1000) -> None:
    """A local job comes to a cluster, and two seconds later the broker hears of its plan."""
    rounds.clusters[name].submit(f"local {rounds.clock():g}", 8, walltime)
    rounds.clock.advance(2)
    rounds.hear()


def shares(rounds: ClaimRounds, job: int) -> dict[str, int]:
    """How many tasks of a bag each cluster has."""
    live = {part.part: part.live for part in bags.parts_of(rounds.connection, [job])}
    return {part.cluster: live[part.name] for part in rounds.parts(job) if live[part.name]}


def test_a_cluster_whose_plan_changed_is_asked_anew_before_tasks_are_given(rounds: ClaimRounds) -> None:
    slow = SlowOffers(rounds, "south")
    job = rounds.bag(16)
    rounds.round()
    assert asked(rounds, "north")["offers"] == 1
    local(rounds, "north")
    assert plan_of(rounds, "north") > 0
    assert slow.come() == 1
    rounds.round()
    assert asked(rounds, "north")["offers"] == 2
    assert asked(rounds, "south")["offers"] == 1
    rounds.until(6)
    assert (shares(rounds, job), bags.of_job(rounds.connection, job).rounds) == ({"south": 16}, 0)


def test_nobody_is_asked_anew_whose_plan_is_that_of_its_offers(rounds: ClaimRounds) -> None:
    slow = SlowOffers(rounds, "south")
    rounds.bag(16)
    rounds.round()
    rounds.clock.advance(2)
    rounds.hear()
    assert (plan_of(rounds, "north"), slow.come()) == (0, 1)
    rounds.round()
    assert asked(rounds, "north")["offers"] == asked(rounds, "north")["prepare"] == 1


def test_a_plan_that_changes_all_the_time_keeps_no_bag_back(rounds: ClaimRounds) -> None:
    slow = SlowOffers(rounds, "north")
    job = rounds.bag(16)
    for times in range(1, 4):
        rounds.round()
        assert asked(rounds, "north")["offers"] == times
        local(rounds, "north", 100)
        assert slow.come() == 1
    rounds.round()
    assert asked(rounds, "north")["offers"] == 3
    rounds.until(100)
    assert rounds.job(job).state is GridJobState.RUNNING


def test_clusters_are_listened_to_while_a_bag_waits_for_them_and_not_after(rounds: ClaimRounds) -> None:
    assert not bags.are_composed(rounds.connection)
    rounds.until(5)
    assert asked(rounds, "north")["events"] == 0
    rounds.bag(4)
    rounds.hear()
    assert asked(rounds, "north")["events"] == 1
    rounds.until(10)
    assert not bags.are_composed(rounds.connection)


@pytest.mark.parametrize("seed", range(4))
def test_lost_doubled_and_late_news_of_plans_leave_one_table(rounds: ClaimRounds, seed: int) -> None:
    chance = random.Random(seed)
    ways = [Ways(rounds, name, chance) for name in rounds.clusters]
    slow, jobs = SlowOffers(rounds, chance.choice([*rounds.clusters])), list[int]()
    for step in range(25):
        if step < 5:
            jobs.append(rounds.bag(chance.randint(1, 24), chance.choice((20, 60))))
        if chance.random() < 0.4:
            name = chance.choice([*rounds.clusters])
            rounds.clusters[name].submit(f"local {step}", chance.randint(1, 8), 30)
        rounds.round()
        rounds.clock.advance(chance.choice((0.5, 1, 3)))
        rounds.hear()
        if chance.random() < 0.6:
            slow.come()
    for _ in range(200):
        slow.come()
        rounds.round()
        if all(rounds.job(job).state is GridJobState.TERMINATED for job in jobs):
            break
        rounds.clock.advance(5)
    assert sum((way.seen for way in ways), Counter[str]()).total() > 3
    for job in jobs:
        assert rounds.job(job).state is GridJobState.TERMINATED, rounds.job(job).message
        states = [task.state for task in bags.tasks_of(rounds.connection, job)]
        assert states == ["Over"] * bags.of_job(rounds.connection, job).tasks
    ended = Counter((one.part, one.task) for one in rounds.events("task"))  # type: ignore[attr-defined]
    assert set(ended.values()) == {1}
    assert len(ended) == sum(bags.of_job(rounds.connection, job).tasks for job in jobs)
    assert rounds.there()["north"].keys() | rounds.there()["south"].keys() <= {f"local {step}" for step in range(25)}
