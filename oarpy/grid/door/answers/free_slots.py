"""The number of free processors, as steps over time: without running, reserved and planned jobs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from math import ceil, floor
from typing import NamedTuple

from oarpy.cluster_state.what_if import foreseen
from oarpy.grid.calls.parts import FreeSlot
from oarpy.grid.calls.table import Slots
from oarpy.grid.door.answers import planned_queues
from oarpy.grid.door.answers.idle_processors import fitting_processors
from oarpy.grid.door.call_context import CallContext
from oarpy.model.errors import AdmissionRefused, NotFound
from oarpy.scheduler.gantt.demands import CompiledRequests
from oarpy.scheduler.precedence import Precedence
from oarpy.scheduler.rules.reservations import OVERRUN
from oarpy.scheduler.snapshot import Snapshot, WaitingJob
from oarpy.store.grid import door_parts


class _Held(NamedTuple):
    """Resources that others cannot have during [begin, end)."""

    begin: float
    end: float
    bits: int


def slots(context: CallContext, call: Slots) -> list[FreeSlot]:
    """Answer ``slots``; empty for a request that the cluster refuses. Jobs that give way to it hold nothing."""
    request = call.request
    planned = planned_queues.queues(context, 0)
    try:
        job = planned_queues.behind_all(context, planned, request)
    except (AdmissionRefused, NotFound):
        return [FreeSlot(call.begin, 0)]
    snapshot = planned.snapshot
    ways = CompiledRequests(snapshot, context.reader.get().matchers).alive(job)
    own = {row.job for row in door_parts.named(context.connection, context.broker, call.without).values()}
    held = [hold for hold in _held(context, snapshot, job, own) if hold.begin < call.end and call.begin < hold.end]
    steps: list[FreeSlot] = []
    for instant, taken in _taken(held, call.begin, call.end):
        free = snapshot.usable & ~taken
        procs = max((fitting_processors(way.matcher, free, request.procs) for way in ways), default=0)
        if not steps or steps[-1].procs != procs:
            steps.append(FreeSlot(instant, procs))
    return steps


def _taken(held: Iterable[_Held], begin: float, end: float) -> Iterator[tuple[float, int]]:
    """Yield (instant, resources held from then on), from ``begin`` on and before ``end``, at every change.

    A resource that several jobs hold is free when the last of them is over, so all holdings are added up at each
    change.
    """
    waiting = deque(sorted(held))
    going: list[_Held] = []
    before = -1
    bounds = {bound for hold in waiting for bound in (hold.begin, hold.end) if begin < bound < end}
    for instant in (begin, *sorted(bounds)):
        while waiting and waiting[0].begin <= instant:
            going.append(waiting.popleft())
        going = [hold for hold in going if hold.end > instant]
        taken = 0
        for hold in going:
            taken |= hold.bits
        if taken != before:
            yield instant, taken
            before = taken


def _held(context: CallContext, snapshot: Snapshot, part: WaitingJob, own: set[int]) -> Iterator[_Held]:
    """Yield the holdings of jobs other than ``own``, in whole seconds, with the security time on both sides.

    Jobs that give way to the ``part`` are left out, but for the reservations that they are promised.
    """
    margin, platform, yields = snapshot.security_time, snapshot.platform, Precedence.of(snapshot).yields
    for job in snapshot.holding:
        if job.id not in own and not yields(job, part):
            bits = job.bits if job.bits is not None else platform.bits_of(job.resources)
            end = max(job.end, snapshot.now + OVERRUN) if job.start <= snapshot.now else job.end
            yield _Held(floor(job.start - margin), ceil(end + margin), bits | job.given_back)
    places = foreseen(context.connection, platform)
    for waiting in snapshot.waiting:
        if waiting.id not in own and not yields(waiting, part) and (place := places.get(waiting.id)):
            yield _Held(floor(place.start - margin), ceil(place.end + margin), place.bits)
    for outage in snapshot.outages:
        yield _Held(outage.begin, outage.end, outage.bits)
