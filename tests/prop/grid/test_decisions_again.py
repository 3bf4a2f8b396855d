"""A decision of the broker that was written down comes out the same when it is taken again."""

from __future__ import annotations

import json
from math import inf
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from oarpy.grid.broker.decisions import DrivenCore, as_json, of_json, taken_again
from oarpy.grid.core.broker_state import (
    BrokerState,
    CoAllocatedJob,
    DeadlineRules,
    GridCluster,
    MappedJob,
    ReallocationRules,
    WaitingPart,
)
from oarpy.grid.core.exchanges import Action, AskEcts, EctsTold, JobArrived, LocalJob, PassDue, TryAt, TryDue
from tests.harness.examples import examples

CLUSTERS = tuple(GridCluster(name, procs, speed) for name, procs, speed in (("a", 8, 1), ("b", 4, 1.5), ("c", 6, 2)))
HEURISTICS = ("mct", "minmin", "maxmin", "maxgain", "maxrelgain", "sufferage")


def answered(core: DrivenCore, actions: list[Action], draw: Random) -> None:
    """Tell the ECTs that are asked for, until none are."""
    for action in actions:
        if isinstance(action, AskEcts):
            told = [[draw.choice([inf, draw.uniform(0, 500), 50]) for _ in action.jobs] for _ in action.clusters]
            answered(core, core.tell(EctsTold(action.clusters, action.jobs, told, action.question), 10), draw)


def through_a_file(value: Any) -> Any:
    return json.loads(json.dumps(value, allow_nan=False))


@given(st.sampled_from(HEURISTICS), st.sampled_from([1, 2]), st.integers(0, 1000))
@settings(max_examples=examples(60), deadline=None)
def test_passes_come_out_the_same(heuristic: Any, algorithm: Any, seed: int) -> None:
    draw = Random(seed)
    rules = ReallocationRules(algorithm=algorithm, heuristic=heuristic, age_limit=draw.choice([inf, 8]))
    jobs = [MappedJob(number, draw.randrange(9), draw.randrange(1, 9), draw.uniform(1, 90)) for number in range(40)]
    waiting = [WaitingPart(job, draw.choice("abc")) for job in jobs]
    core = DrivenCore(BrokerState(CLUSTERS, reallocation=rules))
    answered(core, core.tell(PassDue(waiting), 10), draw)
    noted = core.taken()
    assert taken_again(through_a_file(noted.state), through_a_file(noted.events)) == through_a_file(noted.actions)


@given(st.sampled_from(["mct", "random", "round_robin"]), st.integers(0, 1000))
@settings(max_examples=examples(40), deadline=None)
def test_clusters_and_tries_come_out_the_same_from_the_state_in_between(mapping: Any, seed: int) -> None:
    draw = Random(seed)
    deadlines = DeadlineRules(tries=3, wait=draw.choice([inf, 20]))
    core = DrivenCore(BrokerState(CLUSTERS, deadlines, ReallocationRules(mapping=mapping, seed=seed)))
    for number in range(12):
        answered(core, core.tell(JobArrived(MappedJob(number, 0, draw.randrange(1, 9), 5)), number), draw)
        together = CoAllocatedJob(f"g{number}", number, draw.randrange(1, 5), 2, number + 40)
        actions = core.tell(JobArrived(together), number)
        while actions and isinstance(actions[0], TryAt):
            due = actions[0]
            idle = {name: draw.randrange(9) for name in "abc"}
            victims = {"b": [LocalJob("b:7", 3)]} if due.last else {}
            actions = core.tell(TryDue(due.job, idle, victims), due.at)
        noted = core.taken()
        assert taken_again(through_a_file(noted.state), through_a_file(noted.events)) == through_a_file(noted.actions)


def test_a_changed_record_comes_out_differently() -> None:
    core = DrivenCore(BrokerState(CLUSTERS))
    answered(core, core.tell(JobArrived(MappedJob(1, 0, 1, 5)), 0), Random(4))
    noted = core.taken()
    told = of_json(noted.events[1]["event"])
    best = min(told.ects)
    other = EctsTold(told.clusters, told.jobs, [(inf,) if ects == best else ects for ects in told.ects], told.question)
    noted.events[1]["event"] = as_json(other)
    assert taken_again(noted.state, noted.events) != noted.actions
