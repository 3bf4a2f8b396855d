"""The question of a new reservation to a cluster in counted form: processors of this moment, without their names.

A processor is one of the resources that the reservation may have. Times include the security time, so starts are those
of the cluster. A reservation that can no longer move has a window of just its length. The same holds for other holds
that begin later.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import floor, inf

import msgspec

from oarpy.model.errors import OarpyError
from oarpy.questions.fields import AdmitFile, NewEntry, RunningEntry, WindowEntry
from oarpy.questions.table import plain
from oarpy.scheduler.gantt.demands import CompiledRequests
from oarpy.scheduler.gantt.gantt import bits_held
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.snapshot import Snapshot, WaitingJob
from oarpy.scheduler.windows.named_timeline import Asked
from oarpy.scheduler.windows.window_jobs import WindowJob
from oarpy.scheduler.windows.window_pass import Arrival, arrival

_FOR_EVER = 1e10
"""The length in seconds of a hold without an end."""

Held = tuple[int | str, float, float, int]
"""A hold: the id of the job, its begin, its end, and the number of processors."""


def question_text(snapshot: Snapshot, job: WaitingJob, matchers: Matchers) -> str:
    """Return the file for ``oarpy decide`` that asks whether the new reservation ``job`` is accepted.

    Raises :class:`OarpyError` where there is nothing to ask: no resource serves it, or its window is over.
    """
    met = arrival(snapshot, job, matchers)
    options = CompiledRequests(snapshot, matchers)
    procs = options.size(met.new.request.job) if isinstance(met, Arrival) else 0
    if isinstance(met, str) or not procs:
        raise OarpyError(f"no question: {met if isinstance(met, str) else 'no resource serves the request'}")
    machine = options.reservable(met.new.request.job)[0].matcher.usable
    return json.dumps(plain(msgspec.to_builtins(_admit_file(snapshot, met, machine, procs))), indent=1) + "\n"


def _admit_file(snapshot: Snapshot, met: Arrival, machine: int, procs: int) -> AdmitFile:
    now, security = snapshot.now, snapshot.security_time
    count = _Count(machine)
    waiting = []
    for job, slot in met.movable:
        if held := count.taken(slot.bits, slot.start, slot.end + security):
            lo, last = job.window(now)
            entry = _entry(job, held, security)
            strict = {} if lo <= slot.start <= last else {"ready": slot.start, "deadline": slot.end + security}
            waiting.append(WindowEntry(**msgspec.structs.asdict(entry) | strict, start=slot.start))
    running = []
    for name, begin, end, held in _held(snapshot, met, count):
        if begin <= now:
            running.append(RunningEntry(name, held, floor(begin), end - floor(begin)))
        else:
            waiting.append(WindowEntry(name, held, end - begin, end, ready=begin, start=begin))
    assert snapshot.windows is not None
    return AdmitFile(
        ask="admit",
        procs=machine.bit_count(),
        new=_entry(met.new, procs, security),
        now=now,
        criterion=snapshot.windows.order,
        seed=int(now),
        running=tuple(running),
        waiting=tuple(waiting),
        accept=met.terms.accept if met.terms.accept >= 0 else None,
        farther=met.terms.farther,
    )


def _entry(job: WindowJob[Asked], procs: int, security: float) -> NewEntry:
    ready = None if job.ready == -inf else job.ready
    return NewEntry(job.id, procs, job.time + security, job.deadline + security, job.submitted, ready)


def _held(snapshot: Snapshot, met: Arrival, count: _Count) -> Iterator[Held]:
    """Yield the holds that cannot move: jobs, then outages. Shared resources are counted once."""
    for place, job in enumerate(met.others):
        begin, end = job.start, job.end + snapshot.security_time
        if held := count.taken(bits_held(snapshot.platform, job), max(begin, snapshot.now), end):
            yield job.id if job.part is None else f"part {place} of {job.id}", begin, end, held
    for place, outage in enumerate(snapshot.outages, 1):
        begin, end = max(outage.begin, snapshot.now), min(outage.end, snapshot.now + _FOR_EVER)
        if held := count.taken(outage.bits, begin, end):
            yield f"outage {place}", begin, end, held


class _Count:
    """Counts the processors that a hold takes and that no earlier hold has at the same time."""

    def __init__(self, machine: int) -> None:
        self._machine = machine
        self._taken: list[tuple[float, float, int]] = []

    def taken(self, bits: int, begin: float, end: float) -> int:
        """Take the resources of ``bits`` that are free all the time from ``begin`` to ``end``; return their number."""
        bits &= self._machine if begin < end else 0
        for other_begin, other_end, others in self._taken:
            if other_begin < end and begin < other_end:
                bits &= ~others
        if bits:
            self._taken.append((begin, end, bits))
        return bits.bit_count()
