"""A reallocation pass: waiting mapped jobs move to where they end sooner.

From INRIA RR-7226. Algorithm 1 moves a job if it gains enough by it. Algorithm 2 withdraws all of them, and lets each
join the queue where it ends first. ECTs are asked anew after each change, on the clusters that changed. Where jobs are
chosen as they were submitted, a few are looked at together: of the others ECTs would not be used before they change.
"""

from __future__ import annotations

from math import inf

from oarpy.grid.core.broker_state import BrokerState, PassInProgress, WaitingPart
from oarpy.grid.core.exchanges import Action, AskEcts, EctsTold, JoinQueue, MoveJob, PassDue, WithdrawJobs
from oarpy.grid.core.heuristics import scores

_TOGETHER = 16
"""Jobs that are looked at together where they are chosen in the order of submission."""


def begin(state: BrokerState, due: PassDue, now: float) -> list[Action]:
    """Begin a pass over those that wait, the old ones excepted (age guard)."""
    left = [one for one in due.waiting if now - one.job.submitted <= state.reallocation.age_limit]
    if not left or not state.reallocation.algorithm:
        return []
    state.passing = PassInProgress(left)
    if state.reallocation.algorithm == 1:
        _narrow(state, state.passing)
    return [_asked(state.passing, state.names)]


def go_on(state: BrokerState, told: EctsTold) -> list[Action]:
    """Take ECTs, and deal with the jobs that are left until ECTs have to be asked again."""
    passing = state.passing
    assert passing is not None
    places, known = [state.places[cluster] for cluster in told.clusters], passing.ects
    for job, ects in told.ects.items():
        row = known.get(job)
        if row is None:
            row = known[job] = [inf] * len(state.clusters)
        for place, ect in zip(places, ects, strict=True):
            row[place] = ect
    if state.reallocation.algorithm == 2:
        return _put_anew(state, passing) if passing.noted is not None else _withdraw(state, passing)
    return _move(state, passing)


def _narrow(state: BrokerState, passing: PassInProgress) -> None:
    """Look at the first of all that are left, or at all of them if anybody may be chosen."""
    everybody = passing.left + passing.later
    count = _TOGETHER if state.reallocation.heuristic == "mct" else len(everybody)
    passing.left, passing.later = everybody[:count], everybody[count:]


def _look_further(state: BrokerState, passing: PassInProgress) -> list[Action]:
    """Ask about those that come next, or end the pass if there are none."""
    if passing.later:
        _narrow(state, passing)
        return [_asked(passing, state.names)]
    state.passing = None
    return []


def _asked(passing: PassInProgress, clusters: tuple[str, ...]) -> AskEcts:
    return AskEcts(tuple(one.job.id for one in passing.left), clusters)


def _move(state: BrokerState, passing: PassInProgress) -> list[Action]:
    """Algorithm 1: choose jobs until one moves, or none is left. ECTs stay the same until then, and so do choices."""
    current, new = {}, {}
    for one in passing.left:
        ects, here = passing.ects[one.job.id], state.places[one.cluster]
        current[one.job.id] = ects[here]
        new[one.job.id] = min((ect for place, ect in enumerate(ects) if place != here), default=inf)
    jobs = [one.job for one in passing.left]
    found = scores(state.reallocation.heuristic, jobs, passing.ects, current, new)
    order = sorted(range(len(jobs)), key=lambda place: -found[place])
    for count, chosen in enumerate(order):
        one = passing.left[chosen]
        if new[one.job.id] + state.reallocation.threshold < current[one.job.id]:
            passing.left = [passing.left[place] for place in sorted(order[count + 1 :])]
            return _moved(state, passing, one, current[one.job.id], new[one.job.id])
    passing.left = []
    return _look_further(state, passing)


def _moved(state: BrokerState, passing: PassInProgress, one: WaitingPart, current: float, new: float) -> list[Action]:
    """Move a job to the first other cluster where it ends at ``new``."""
    here, ects = state.places[one.cluster], passing.ects[one.job.id]
    target = next(state.names[place] for place, ect in enumerate(ects) if place != here and ect == new)
    return _changed(state, passing, MoveJob(one.job.id, one.cluster, target, current, new), (one.cluster, target))


def _withdraw(state: BrokerState, passing: PassInProgress) -> list[Action]:
    """Algorithm 2, its beginning: note the ECTs and withdraw all."""
    passing.noted = {one.job.id: passing.ects[one.job.id][state.places[one.cluster]] for one in passing.left}
    withdrawn = WithdrawJobs(tuple(passing.noted))
    _narrow(state, passing)
    return [withdrawn, _asked(passing, state.names)]


def _put_anew(state: BrokerState, passing: PassInProgress) -> list[Action]:
    """Algorithm 2: let the chosen job join the queue where it ends first, ties where it was."""
    noted = passing.noted
    assert noted is not None
    jobs, known = [one.job for one in passing.left], passing.ects
    best = {job.id: min(known[job.id]) for job in jobs}
    found = scores(state.reallocation.heuristic, jobs, passing.ects, noted, best)
    one = passing.left.pop(found.index(max(found)))
    ects, here, new = passing.ects[one.job.id], state.places[one.cluster], best[one.job.id]
    place = here if ects[here] == new else ects.index(new)
    target = state.names[place]
    change: Action = JoinQueue(one.job.id, target)
    if place != here:
        change = MoveJob(one.job.id, one.cluster, target, noted[one.job.id], new)
    return _changed(state, passing, change, (target,))


def _changed(state: BrokerState, passing: PassInProgress, change: Action, clusters: tuple[str, ...]) -> list[Action]:
    """Ask for a change and, if somebody is left, for the ECTs that it has changed."""
    if not passing.left:
        return [change, *_look_further(state, passing)]
    return [change, _asked(passing, clusters)]
