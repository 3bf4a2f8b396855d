"""Expected ends of jobs, submitted or not, by the plan of the cluster. Nothing is changed."""

from __future__ import annotations

import time
from math import inf

from oarpy.admission.rules.rules import RefusedByRule
from oarpy.grid.calls.parts import PartRequest
from oarpy.grid.calls.table import Estimate, EstimateInTurn
from oarpy.grid.door.answers import planned_queues
from oarpy.grid.door.answers.planned_queues import PlannedQueues
from oarpy.grid.door.call_context import CallContext
from oarpy.model.errors import AdmissionRefused, OarpyError
from oarpy.scheduler.forecast.completions import Completions
from oarpy.scheduler.snapshot import WaitingJob
from oarpy.store.grid import door_parts
from oarpy.store.grid.door_parts import DoorPartRow


def estimate(context: CallContext, call: Estimate) -> list[float]:
    """Answer ``estimate``. A request that this cluster refuses never ends; a single request gets the reason instead."""
    planned = planned_queues.queues(context, call.age)
    names = {request for request in call.requests if isinstance(request, str)}
    parts = door_parts.named(context.connection, context.broker, [*names, *call.without])
    without = {parts[name].job for name in call.without if name in parts}
    requests = [request for request in call.requests if not isinstance(request, str)]
    planned_queues.admit_all(context, [*call.joined, *requests])
    joined = planned_queues.in_order(context, planned, call.joined)
    jobs = {request: _job(context, planned, request, alone=len(call.requests) == 1) for request in requests}
    jobs_of_parts = {name: row.job for name, row in parts.items() if name in names and row.live}
    new = [job for job in jobs.values() if job is not None]
    known: list[int | WaitingJob] = [*dict.fromkeys(jobs_of_parts.values()), *new]
    numbers = [job if isinstance(job, int) else job.id for job in known]
    ends = dict(zip(numbers, planned.completions.ends(known, without, joined), strict=True)) if known else {}
    ends_of: dict[str | PartRequest, float] = {}
    for request, job in jobs.items():
        ends_of[request] = inf if job is None else ends[job.id]
    for name in names:
        ends_of[name] = _end_of(planned, parts[name], ends) if name in jobs_of_parts else time.time()
    return [ends_of[request] for request in call.requests]


def estimate_in_turn(context: CallContext, call: EstimateInTurn) -> list[float]:
    """Answer ``estimate_in_turn``. Raises as ``oarsub``."""
    planned = planned_queues.queues(context, 0)
    jobs = planned_queues.equal_jobs(context, planned, call.request, call.count)
    from_here = Completions(planned.snapshot, planned_queues.orders(), context.reader.get().matchers)
    return [end for rank, job in enumerate(jobs) for end in from_here.ends([job], (), jobs[:rank])]


def _job(context: CallContext, planned: PlannedQueues, request: PartRequest, *, alone: bool) -> WaitingJob | None:
    """Return the job that would be submitted, None for a refused request."""
    try:
        return planned_queues.behind_all(context, planned, request)
    except OarpyError as error:
        too_large = isinstance(error, AdmissionRefused) and not isinstance(error, RefusedByRule)
        if alone and not too_large:
            raise
        return None


def _end_of(planned: PlannedQueues, row: DoorPartRow, ends: dict[int, float]) -> float:
    """Return the end of a part that is not over; an accepted reservation is no job of the queues."""
    for reservation in planned.snapshot.reservations:
        if reservation.job.id == row.job:
            return reservation.end
    return ends[row.job]
