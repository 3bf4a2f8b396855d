"""A reallocation pass: waiting mapped jobs move to where they end sooner.

From INRIA RR-7226. Algorithm 1 moves a job if it gains enough by it. Algorithm 2 withdraws all of them, and lets each
join the queue where it ends first. ECTs are asked anew after each change, on the clusters that changed.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from oarpy.grid.core.broker_state import BrokerState, MappedJob, PassInProgress, WaitingPart
from oarpy.grid.core.exchanges import Action, AskEcts, EctsTold, JoinQueue, MoveJob, PassDue, WithdrawJobs
from oarpy.grid.core.heuristics import choose

_CurrentAndNew = Callable[[MappedJob], tuple[float, float]]


def begin(state: BrokerState, due: PassDue, now: float) -> list[Action]:
    """Begin a pass over those that wait, the old ones excepted (age guard)."""
    left = [one for one in due.waiting if now - one.job.submitted <= state.reallocation.age_limit]
    if not left or not state.reallocation.algorithm:
        return []
    state.passing = PassInProgress(left)
    return [_asked(state.passing, state.names)]


def go_on(state: BrokerState, told: EctsTold) -> list[Action]:
    """Take ECTs, and deal with the jobs that are left until ECTs have to be asked again."""
    passing = state.passing
    assert passing is not None
    for job, ects in told.ects.items():
        row = passing.ects.setdefault(job, [inf] * len(state.clusters))
        for cluster, ect in zip(told.clusters, ects, strict=True):
            row[state.places[cluster]] = ect
    if state.reallocation.algorithm == 2:
        return _put_anew(state, passing) if passing.noted is not None else _withdraw(state, passing)
    return _move(state, passing)


def _asked(passing: PassInProgress, clusters: tuple[str, ...]) -> AskEcts:
    return AskEcts(tuple(one.job.id for one in passing.left), clusters)


def _move(state: BrokerState, passing: PassInProgress) -> list[Action]:
    """Algorithm 1: choose jobs until one moves, or none is left."""
    waits = {one.job.id: state.places[one.cluster] for one in passing.left}

    def current_and_new(job: MappedJob) -> tuple[float, float]:
        ects, here = passing.ects[job.id], waits[job.id]
        return ects[here], min((ect for place, ect in enumerate(ects) if place != here), default=inf)

    while passing.left:
        one = _next(state, passing, current_and_new)
        current, new = current_and_new(one.job)
        if new + state.reallocation.threshold < current:
            here = waits[one.job.id]
            target = next(
                state.names[place] for place, ect in enumerate(passing.ects[one.job.id]) if place != here and ect == new
            )
            return _changed(
                state, passing, MoveJob(one.job.id, one.cluster, target, current, new), (one.cluster, target)
            )
    state.passing = None
    return []


def _withdraw(state: BrokerState, passing: PassInProgress) -> list[Action]:
    """Algorithm 2, its beginning: note the ECTs and withdraw all."""
    passing.noted = {one.job.id: passing.ects[one.job.id][state.places[one.cluster]] for one in passing.left}
    return [WithdrawJobs(tuple(passing.noted)), _asked(passing, state.names)]


def _put_anew(state: BrokerState, passing: PassInProgress) -> list[Action]:
    """Algorithm 2: let the chosen job join the queue where it ends first, ties where it was."""
    noted = passing.noted
    assert noted is not None
    one = _next(state, passing, lambda job: (noted[job.id], min(passing.ects[job.id])))
    ects, here = passing.ects[one.job.id], state.places[one.cluster]
    new = min(ects)
    place = here if ects[here] == new else ects.index(new)
    target = state.names[place]
    change: Action = JoinQueue(one.job.id, target)
    if place != here:
        change = MoveJob(one.job.id, one.cluster, target, noted[one.job.id], new)
    return _changed(state, passing, change, (target,))


def _next(state: BrokerState, passing: PassInProgress, current_and_new: _CurrentAndNew) -> WaitingPart:
    """Take the chosen job out of those that are left."""
    jobs = [one.job for one in passing.left]
    return passing.left.pop(choose(state.reallocation.heuristic, jobs, passing.ects, current_and_new))


def _changed(state: BrokerState, passing: PassInProgress, change: Action, clusters: tuple[str, ...]) -> list[Action]:
    """Ask for a change and, if somebody is left, for the ECTs that it has changed."""
    if not passing.left:
        state.passing = None
        return [change]
    return [change, _asked(passing, clusters)]
