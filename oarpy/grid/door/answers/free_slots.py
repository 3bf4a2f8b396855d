"""How many processors nobody has, as steps over time: beside what runs, is reserved, or has its place in a plan."""

from __future__ import annotations

from collections.abc import Iterator
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
from oarpy.scheduler.rules.reservations import OVERRUN
from oarpy.scheduler.snapshot import Snapshot
from oarpy.store.grid import door_parts


class _Held(NamedTuple):
    """Resources that others cannot have during [begin, end)."""

    begin: float
    end: float
    bits: int


def slots(context: CallContext, call: Slots) -> list[FreeSlot]:
    """Answer ``slots``: none for what the cluster refuses. Best-effort jobs hold nothing: they give way to a part."""
    request = call.request
    planned = planned_queues.queues(context, 0)
    try:
        job = planned_queues.behind_all(context, planned, request)
    except (AdmissionRefused, NotFound):
        return [FreeSlot(call.begin, 0)]
    snapshot = planned.snapshot
    ways = CompiledRequests(snapshot, context.reader.get().matchers).alive(job)
    own = {row.job for row in door_parts.named(context.connection, context.broker, call.without).values()}
    held = [one for one in _held(context, snapshot, own) if one.begin < call.end and call.begin < one.end]
    bounds = {bound for one in held for bound in (one.begin, one.end) if call.begin < bound < call.end}
    found: list[FreeSlot] = []
    for instant in (call.begin, *sorted(bounds)):
        free = snapshot.usable
        for one in held:
            if one.begin <= instant < one.end:
                free &= ~one.bits
        procs = max((fitting_processors(way.matcher, free, request.procs) for way in ways), default=0)
        if not found or found[-1].procs != procs:
            found.append(FreeSlot(instant, procs))
    return found


def _held(context: CallContext, snapshot: Snapshot, own: set[int]) -> Iterator[_Held]:
    """Yield what is held by others than the jobs ``own``, in whole seconds, with the security time on both sides."""
    margin, platform = snapshot.security_time, snapshot.platform
    for job in snapshot.holding:
        if not job.besteffort and job.id not in own:
            bits = job.bits if job.bits is not None else platform.bits_of(job.resources)
            end = max(job.end, snapshot.now + OVERRUN) if job.start <= snapshot.now else job.end
            yield _Held(floor(job.start - margin), ceil(end + margin), bits | job.given_back)
    places = foreseen(context.connection, platform)
    for waiting in snapshot.waiting:
        if not waiting.besteffort and waiting.id not in own and (place := places.get(waiting.id)):
            yield _Held(floor(place.start - margin), ceil(place.end + margin), place.bits)
    for outage in snapshot.outages:
        yield _Held(outage.begin, outage.end, outage.bits)
