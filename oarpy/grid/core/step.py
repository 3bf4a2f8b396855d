"""The broker as one function, from what happened to what is to be done."""

from __future__ import annotations

from oarpy.grid.core import reallocation
from oarpy.grid.core.broker_state import BrokerState, CoAllocatedJob, MappedJob, PlannedTry
from oarpy.grid.core.exchanges import Action, ClaimParts, EctsTold, Event, JobArrived, MissJob, PassDue, TryAt, TryDue
from oarpy.grid.core.mapping import map_by_ects, map_job
from oarpy.grid.core.tries import first_try, next_try
from oarpy.grid.core.worst_fit import find_room


def step(state: BrokerState, event: Event, now: float) -> list[Action]:
    """Take an event at ``now`` (seconds): change the state, and return what is to be done, in this order.

    The same state and the same event always give the same actions.
    """
    match event:
        case JobArrived():
            return _take(state, event.job)
        case TryDue():
            return [_try(state, event)]
        case PassDue():
            return reallocation.begin(state, event, now)
        case EctsTold(question="mapping"):
            return map_by_ects(state, event)
        case EctsTold():
            return reallocation.go_on(state, event)


def _take(state: BrokerState, job: MappedJob | CoAllocatedJob) -> list[Action]:
    if isinstance(job, MappedJob):
        return map_job(state, job)
    state.coallocated[job.id] = job
    return [_set(state, job, first_try(job, state.deadlines))]


def _try(state: BrokerState, due: TryDue) -> Action:
    """Look for room for all components; claim it, try again, or give up."""
    job, tried = state.coallocated[due.job], state.tries.pop(due.job)
    room = find_room(job, state.clusters, due.idle, due.evictable if tried.last else {})
    if room is None and not tried.last:
        return _set(state, job, next_try(tried, job, state.deadlines))
    del state.coallocated[due.job]
    return MissJob(job.id) if room is None else ClaimParts(job.id, room.clusters, room.evicted)


def _set(state: BrokerState, job: CoAllocatedJob, planned: PlannedTry) -> TryAt:
    state.tries[job.id] = planned
    return TryAt(job.id, planned.at, planned.last)
