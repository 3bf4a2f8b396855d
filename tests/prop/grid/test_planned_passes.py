"""A pass planned by estimates comes to the moves of one that carries out each of them before it chooses the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oarpy.grid.broker.decisions import taken_again
from oarpy.grid.broker.pass_plan import MovablePart, PassPlan, PassPlanner, request_there, without_needless
from oarpy.grid.calls.parts import GridPart, PartRequest
from oarpy.grid.calls.table import Cancel, Commit, Estimate, Prepare, Waiting
from oarpy.grid.clusters.virtual.cluster import SimulatedCluster, VirtualClock
from oarpy.grid.core import reallocation
from oarpy.grid.core.broker_state import GridCluster, ReallocationRules
from tests.harness.examples import examples

HEURISTICS = ["mct", "minmin", "maxmin", "maxgain", "maxrelgain", "sufferage"]
NOW, THRESHOLD = 5000.0, 60.0


@dataclass
class SmallGrid:
    """Three clusters in memory on which jobs of a broker wait."""

    seed: int
    policy: Any
    clusters: list[GridCluster] = field(default_factory=list)
    providers: dict[str, SimulatedCluster] = field(default_factory=dict)
    parts: list[MovablePart] = field(default_factory=list)
    asked: dict[str, list[int]] = field(default_factory=dict)
    """For how many jobs each cluster was asked, one question after the other."""

    def __post_init__(self) -> None:
        draw = Random(self.seed)
        clock = VirtualClock(0)
        for name, procs, speed in (("a", 8, 1.0), ("b", 6, 1.25), ("c", 4, 2.0)):
            self.clusters.append(GridCluster(name, procs, speed))
            self.providers[name] = SimulatedCluster(name, procs, clock=clock, policy=self.policy)
            self.providers[name].submit("local", procs, draw.choice([6000, 9000, 20000]))
        for job in range(1, draw.randrange(3, 14)):
            there = draw.choice(self.clusters)
            request = PartRequest("ann", "/core=1", draw.randrange(1, there.procs + 1), draw.randrange(50, 4000))
            part = MovablePart(f"p{job}", job, there.name, draw.randrange(int(NOW)), request)
            self.put(part, there)
            self.parts.append(part)
        for cluster in self.providers.values():
            if draw.random() < 0.5:
                cluster.submit("late", 2, draw.randrange(100, 9000))
        self.parts.sort(key=lambda part: (part.submitted, part.job))
        clock.now = NOW

    def put(self, part: MovablePart, there: GridCluster) -> None:
        queued = GridPart(part.name, "queued", request_there(part, there))
        key = f"{part.name} {there.name} {len(self.providers[there.name].calls)}"
        self.providers[there.name].ask(Prepare(key, queued, 60, key=f"{key} prepare"))
        self.providers[there.name].ask(Commit(key, key=f"{key} commit"))

    def take(self, part: MovablePart, cluster: str) -> None:
        self.providers[cluster].ask(Cancel(part.name, key=f"{part.name} {len(self.providers[cluster].calls)}"))

    def end(self, part: MovablePart, there: GridCluster, waits: str | None) -> float:
        if part.request.procs > there.procs:
            return inf
        asked = part.name if waits == there.name else request_there(part, there)
        return self.providers[there.name].ask(Estimate([asked]))[0]

    def ends(self, part: MovablePart, waits: str | None) -> dict[str, float]:
        return {there.name: self.end(part, there, waits) for there in self.clusters}

    def planned(self, rules: ReallocationRules) -> PassPlan:
        conversation = PassPlanner(self.clusters, rules).plan(self.parts, NOW)
        batch = next(conversation)
        while True:
            try:
                answers: list[Any] = [call.made_of(self.providers[call.cluster]) for call in batch.calls]
                for call, ends in zip(batch.calls, answers, strict=True):
                    self.asked.setdefault(call.cluster, []).append(len(ends))
                batch = conversation.send(answers)
            except StopIteration as end:
                made: PassPlan = end.value
                return made


def score(heuristic: str, part: MovablePart, ends: dict[str, float], current: float, new: float) -> float:
    least, second, *_ = sorted(ends.values())
    return {
        "mct": 0,
        "minmin": -least,
        "maxmin": least,
        "maxgain": current - new,
        "maxrelgain": (current - new) / part.request.procs,
        "sufferage": second - least if second < inf else inf,
    }[heuristic]


def naive_first(grid: SmallGrid, heuristic: str) -> list[tuple[int, str, str]]:
    """Carry out algorithm 1 as it is written; return job, source and target of each move."""
    left, moves = list(grid.parts), []
    while left:
        rated = []
        for part in left:
            ends = grid.ends(part, part.cluster)
            new = min(end for name, end in ends.items() if name != part.cluster)
            target = next(name for name, end in ends.items() if name != part.cluster and end == new)
            current = ends[part.cluster]
            rated.append((score(heuristic, part, ends, current, new), part, target, new + THRESHOLD < current))
        _, part, target, pays = max(rated, key=lambda one: one[0])
        if pays:
            grid.take(part, part.cluster)
            grid.put(part, next(there for there in grid.clusters if there.name == target))
            moves.append((part.job, part.cluster, target))
        left.remove(part)
    return moves


def naive_second(grid: SmallGrid, heuristic: str) -> list[tuple[int, str, str]]:
    """Carry out algorithm 2 as it is written; return job, source and target of all, in the order of choice."""
    noted = {part.job: grid.ends(part, part.cluster)[part.cluster] for part in grid.parts}
    for part in grid.parts:
        grid.take(part, part.cluster)
    left, moves = list(grid.parts), []
    while left:
        rated = []
        for part in left:
            ends = grid.ends(part, None)
            best = min(ends.values())
            target = part.cluster if ends[part.cluster] == best else min(ends, key=lambda name: ends[name])
            rated.append((score(heuristic, part, ends, noted[part.job], best), part, target))
        _, part, target = max(rated, key=lambda one: one[0])
        grid.put(part, next(there for there in grid.clusters if there.name == target))
        moves.append((part.job, part.cluster, target))
        left.remove(part)
    return moves


GRIDS = st.tuples(st.sampled_from(HEURISTICS), st.sampled_from(["fcfs", "conservative"]), st.integers(0, 10_000))


@given(GRIDS, st.sampled_from([1, 2]), st.sampled_from([2, 16]))
@settings(max_examples=examples(120), deadline=None)
def test_a_planned_pass_is_one_that_is_carried_out(drawn: tuple[Any, Any, int], algorithm: Any, together: int) -> None:
    heuristic, policy, seed = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reallocation, "_TOGETHER", together)
        plan_and_carry_out(heuristic, policy, seed, algorithm)


def plan_and_carry_out(heuristic: Any, policy: Any, seed: int, algorithm: Any) -> None:
    rules = ReallocationRules(algorithm=algorithm, heuristic=heuristic, threshold=THRESHOLD)
    grid = SmallGrid(seed, policy)
    before = {name: cluster.states() for name, cluster in grid.providers.items()}
    made = grid.planned(rules)
    assert {name: cluster.states() for name, cluster in grid.providers.items()} == before
    naive = (naive_first if algorithm == 1 else naive_second)(SmallGrid(seed, policy), heuristic)
    assert [(move.part.job, move.part.cluster, move.target) for move in made.moves] == naive
    assert taken_again(made.decision.state, made.decision.events) == made.decision.actions


def test_by_its_first_question_a_cluster_is_asked_for_all_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reallocation, "_TOGETHER", 2)
    grid = SmallGrid(3, "conservative")
    grid.planned(ReallocationRules(algorithm=1, threshold=THRESHOLD))
    assert len(grid.parts) > 3
    assert {name: asked[0] for name, asked in grid.asked.items()} == dict.fromkeys("abc", len(grid.parts))
    assert {number for asked in grid.asked.values() for number in asked[1:]} <= {1, 2}


def order_after(grid: SmallGrid, moves: Sequence[Any]) -> dict[str, list[str]]:
    """Carry out moves one by one; return the waiting parts of each cluster in order."""
    for move in moves:
        grid.take(move.part, move.part.cluster)
        grid.put(move.part, next(there for there in grid.clusters if there.name == move.target))
    return {name: [one.name for one in cluster.ask(Waiting())] for name, cluster in grid.providers.items()}


@given(GRIDS)
@settings(max_examples=examples(60), deadline=None)
def test_jobs_that_need_not_move_stay_and_the_queues_are_the_same(drawn: tuple[Any, Any, int]) -> None:
    heuristic, policy, seed = drawn
    rules = ReallocationRules(algorithm=2, heuristic=heuristic)
    grid, other = SmallGrid(seed, policy), SmallGrid(seed, policy)
    made = grid.planned(rules)
    queues = {name: [one.name for one in cluster.ask(Waiting())] for name, cluster in grid.providers.items()}
    needed = without_needless(made.moves, queues)
    assert all(move in needed for move in made.moves if not move.stays)
    assert order_after(grid, needed) == order_after(other, made.moves)
