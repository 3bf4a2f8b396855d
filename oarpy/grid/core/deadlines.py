"""Jobs whose components start together at a deadline: room is searched again and again, then claimed or missed."""

from __future__ import annotations

from oarpy.grid.core.broker_state import BrokerState, CoAllocatedJob, PlannedTry
from oarpy.grid.core.exchanges import Action, ClaimParts, JobArrived, LocalJob, MissJob, System, TryAt, TryDue
from oarpy.grid.core.placing_policy import first_try, next_try
from oarpy.grid.core.worst_fit import find_room


def take(state: BrokerState, arrived: JobArrived, now: float) -> list[Action]:
    """Have room looked for."""
    job = arrived.job
    assert isinstance(job, CoAllocatedJob)
    state.coallocated[job.id] = job
    return [_set(state, job, first_try(job, state.deadlines))]


def look(state: BrokerState, due: TryDue, now: float) -> list[Action]:
    """Look for room for all components; claim it, try again, or give up."""
    job, tried = state.coallocated[due.job], state.tries.pop(due.job)
    room = find_room(job, state.clusters, due.idle, due.evictable if tried.last else {})
    if room is None and not tried.last:
        return [_set(state, job, next_try(tried, job, state.deadlines))]
    del state.coallocated[due.job]
    return [MissJob(job.id) if room is None else ClaimParts(job.id, room.clusters, room.evicted)]


def _set(state: BrokerState, job: CoAllocatedJob, planned: PlannedTry) -> TryAt:
    state.tries[job.id] = planned
    return TryAt(job.id, planned.at, planned.last)


SYSTEM = System(
    "deadlines",
    {(JobArrived, CoAllocatedJob): take, TryDue: look},
    (TryAt, ClaimParts, MissJob),
    values=(LocalJob,),
)
