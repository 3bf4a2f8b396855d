"""The number of idle processors, from now on for as long as a request says."""

from __future__ import annotations

from oarpy.grid.calls.parts import PartRequest
from oarpy.grid.calls.table import Idle
from oarpy.grid.door.answers import planned_queues
from oarpy.grid.door.answers.planned_queues import PlannedQueues
from oarpy.grid.door.call_context import CallContext
from oarpy.model.errors import AdmissionRefused, NotFound
from oarpy.scheduler.gantt.demands import CompiledRequests
from oarpy.scheduler.resources.matching import RequestMatcher
from oarpy.scheduler.snapshot import WaitingJob, condition


def idle(context: CallContext, call: Idle) -> int:
    """Answer ``idle``; 0 for a request that the cluster refuses.

    Waiting jobs hold nothing, running best-effort jobs hold their processors.
    """
    request = call.request
    planned = planned_queues.queues(context, 0)
    try:
        job = planned_queues.behind_all(context, planned, request)
    except (AdmissionRefused, NotFound):
        return 0
    free = _free(planned, request, call.begin or 0)
    ways = CompiledRequests(planned.snapshot, context.reader.get().matchers).alive(job)
    return max((fitting_processors(way.matcher, free, request.procs) for way in ways), default=0)


def fitting_processors(matcher: RequestMatcher, free: int, procs: int) -> int:
    """Return the number of free processors for jobs of ``procs`` processors each, in the shape of their request."""
    if matcher.enough is not None:
        return (free & matcher.usable).bit_count()
    jobs = 0
    while taken := matcher.match(free):
        free &= ~taken
        jobs += 1
    return jobs * procs


def fitting(planned: PlannedQueues, job: WaitingJob) -> int:
    """Return the set of resources that meet the conditions of a job."""
    snapshot, bits = planned.snapshot, 0
    for way in job.alternatives:
        for group in way.groups:
            text = condition(job.properties, group.filter)
            bits |= snapshot.filters.get(text, 0) if text else snapshot.platform.default_type
    return bits & snapshot.platform.default_type


def _free(planned: PlannedQueues, request: PartRequest, begin: float) -> int:
    """Return the resources that no job, reservation or outage holds until the end of a job that begins then, or now."""
    snapshot = planned.snapshot
    now, end = snapshot.now, max(snapshot.now, begin) + request.walltime
    free = snapshot.usable & ~snapshot.asleep & ~snapshot.out(now, end)
    for job in snapshot.holding:
        if job.start < end + snapshot.security_time and now < job.end + snapshot.security_time:
            bits = job.bits if job.bits is not None else snapshot.platform.bits_of(job.resources)
            free &= ~(bits | job.given_back)
    return free
