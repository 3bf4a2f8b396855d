"""A reallocation pass: waiting mapped jobs move to where they end sooner.

From INRIA RR-7226. Algorithm 1 moves a job if it gains enough by it. Algorithm 2 withdraws all jobs, and lets each join
the queue where it ends first. After each change ECTs are asked again, on the clusters that changed. Where jobs are
chosen in the order of submission, only a few are looked at together: ECTs of the others would change before they are
used. If withdrawn jobs are alike, only one of them is asked about. A job that other jobs precede in any case is not
asked about.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import inf

import numpy as np

from oarpy.grid.core.broker_state import (
    BrokerState,
    HeuristicName,
    Passing,
    PassInProgress,
    Seconds,
    WaitingPart,
    WithdrawnJobs,
)
from oarpy.grid.core.exchanges import Action, AskEcts, EctsTold, JoinQueue, MoveJob, PassDue, System, WithdrawJobs
from oarpy.grid.core.followers import Asked, BySize, Followers, InOrder, Kind
from oarpy.grid.core.heuristics import BY_GAIN, SCORES, SIGNS_OF_SIZE

_TOGETHER = 16
"""Jobs that are looked at together where they are chosen in the order of submission."""


def begin(state: BrokerState, due: PassDue, now: float) -> list[Action]:
    """Begin a pass over the waiting jobs, except the old ones (age guard)."""
    parts = [part for part in due.waiting if now - part.job.submitted <= state.reallocation.age_limit]
    if not parts or not state.reallocation.algorithm:
        return []
    state.passing = PassInProgress.over(parts, state.places)
    if state.reallocation.algorithm == 1:
        _narrow(state, state.passing)
    return [_asked(state.passing, state.names)]


def go_on(state: BrokerState, answer: EctsTold, now: float) -> list[Action]:
    """Take ECTs, and deal with the jobs that are looked at until ECTs have to be asked again."""
    passing = state.passing
    assert passing is not None
    _take(passing, answer, [state.places[cluster] for cluster in answer.clusters])
    if isinstance(passing, WithdrawnJobs):
        return _put_anew(state, passing)
    return _withdraw(state, passing) if state.reallocation.algorithm == 2 else _move(state, passing)


def _take(passing: Passing, answer: EctsTold, clusters: Sequence[int]) -> None:
    """Write down ECTs; the ECTs of jobs that the answer leaves out are as they were."""
    if len(answer.jobs) == passing.looked_at:
        for cluster, ects in zip(clusters, answer.ects, strict=True):
            passing.ects[cluster, : passing.looked_at] = ects
        return
    places = {job: place for place, job in enumerate(passing.jobs)}
    changed = [places[job] for job in answer.jobs]
    for cluster, ects in zip(clusters, answer.ects, strict=True):
        passing.ects[cluster, changed] = ects


def _narrow(state: BrokerState, passing: PassInProgress) -> None:
    """Look at the first jobs that are left, or at all of them if any job may be chosen."""
    everybody = len(passing.jobs)
    passing.looked_at = min(_TOGETHER, everybody) if state.reallocation.heuristic == "mct" else everybody


def _look_further(state: BrokerState, passing: PassInProgress) -> list[Action]:
    """Ask about the next jobs, or end the pass if there are none."""
    if passing.jobs:
        _narrow(state, passing)
        return [_asked(passing, state.names)]
    state.passing = None
    return []


def _asked(passing: Passing, clusters: tuple[str, ...]) -> AskEcts:
    everybody = passing.looked_at == len(passing.jobs)
    return AskEcts(tuple(passing.jobs if everybody else passing.jobs[: passing.looked_at]), clusters, "pass")


def _move(state: BrokerState, passing: PassInProgress) -> list[Action]:
    """Carry out a step of algorithm 1: move the first chosen job that gains enough; the jobs chosen before it stay.

    Until a job moves, ECTs are the same, and so are choices.
    """
    count = passing.looked_at
    ects, here, places = passing.ects[:, :count], passing.here[:count], np.arange(count)
    current, elsewhere = ects[here, places], ects.copy()
    elsewhere[here, places] = inf
    new = elsewhere.min(axis=0)
    gaining = new + state.reallocation.threshold < current
    if not gaining.any():
        passing.keep(places[:0])
        return _look_further(state, passing)
    scores = SCORES[state.reallocation.heuristic](passing.procs[:count], ects, current, new, np.minimum(current, new))
    best = scores[gaining].max()
    chosen = int(places[gaining & (scores == best)][0])
    part, target = passing.parts[chosen], state.names[int(elsewhere[:, chosen].argmin())]
    passing.keep(places[(scores < best) | (scores == best) & (places > chosen)])
    move = MoveJob(part.job.id, part.cluster, target, float(current[chosen]), float(new[chosen]))
    if not passing.looked_at:
        return [move, *_look_further(state, passing)]
    return [move, _asked(passing, (part.cluster, target))]


def _withdraw(state: BrokerState, passing: PassInProgress) -> list[Action]:
    """Begin algorithm 2: note the ECTs and withdraw all jobs."""
    noted = passing.ects[passing.here, np.arange(len(passing.parts))]
    followers = _followers(state.reallocation.heuristic, passing.parts, noted)
    state.passing = withdrawn = WithdrawnJobs.of(passing, noted, followers)
    return [WithdrawJobs(tuple(passing.jobs)), _asked(withdrawn, state.names)]


def _followers(heuristic: HeuristicName, parts: Sequence[WaitingPart], noted: Seconds) -> Followers:
    """Return the jobs by kind. The first submitted job of a kind is always chosen first, wherever jobs joined."""
    if heuristic == "mct":
        return InOrder([[place] for place in range(len(parts))], _TOGETHER)
    before = noted.tolist() if heuristic in BY_GAIN else [0.0] * len(parts)
    by_kind: dict[Hashable, Kind] = {}
    for place in range(len(parts) - 1, -1, -1):
        kind = parts[place].kind
        by_kind.setdefault((place, None) if kind is None else (kind, before[place]), []).append(place)
    kinds = list(by_kind.values())
    sign = SIGNS_OF_SIZE.get(heuristic)
    if sign is None or any(part.kind is None for part in parts):
        return InOrder(kinds, len(kinds))
    jobs = [parts[kind[0]].job for kind in kinds]
    return BySize(kinds, [Asked(sign * job.procs, sign * job.walltime) for job in jobs])


def _put_anew(state: BrokerState, withdrawn: WithdrawnJobs) -> list[Action]:
    """Put the chosen job into the queue where it ends first, at a tie where it was (algorithm 2)."""
    ects, kinds = withdrawn.ects, withdrawn.looked_at
    best = np.minimum.reduce(ects)  # ects.min(axis=0), without some calls on the way
    score = SCORES[state.reallocation.heuristic]
    chosen = withdrawn.first_of(score(withdrawn.procs, ects, withdrawn.current, best, best))
    new, ends = float(best[chosen]), ects[:, chosen].tolist()
    place = withdrawn.pop(chosen)
    part = withdrawn.parts[place]
    target = part.cluster if ends[state.places[part.cluster]] == new else state.names[ends.index(new)]
    change: Action = JoinQueue(part.job.id, target)
    if target != part.cluster:
        change = MoveJob(part.job.id, part.cluster, target, float(withdrawn.noted[place]), new)
    if withdrawn.looked_at < kinds and withdrawn.look_further():
        return [change, _asked(withdrawn, state.names)]
    if withdrawn.looked_at:
        return [change, _asked(withdrawn, (target,))]
    state.passing = None
    return [change]


SYSTEM = System(
    "reallocation",
    {PassDue: begin, (EctsTold, "pass"): go_on},
    (AskEcts, WithdrawJobs, MoveJob, JoinQueue),
)
