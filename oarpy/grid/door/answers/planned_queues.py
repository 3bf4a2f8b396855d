"""The queues of the cluster as a pass would plan them, the source of answers to brokers.

A session keeps its snapshot for as long as a broker accepts old answers.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from msgspec import structs

from oarpy.client.caller import KeptReader
from oarpy.client.submission.submission import Admitted
from oarpy.cluster_state.order_plugins import SiteOrders
from oarpy.grid.calls.parts import PartRequest
from oarpy.grid.door.answers.part_submission import REFUSALS, ask, ask_each
from oarpy.grid.door.call_context import CallContext
from oarpy.model.errors import OarpyError
from oarpy.scheduler.forecast.completions import Completions
from oarpy.scheduler.snapshot import Snapshot, WaitingJob, conditions

_ADMITTED_FOR = 60.0
"""Seconds for which an answer of the rules is used again."""
_MOST_ADMITTED = 20_000
_TOGETHER = 2
"""The least number of requests that the rules look at together."""


_BEHIND = 1_000_000_000
"""Jobs that join first have lower numbers than the jobs of questions."""


@dataclass(slots=True)
class PlannedQueues:
    """One snapshot with the plans made from it. Jobs that do not exist have higher numbers than all others.

    A request is always represented by the same job, so that plans can be continued.
    """

    snapshot: Snapshot
    read_at: float
    completions: Completions
    next_number: int
    joins_at: float
    asked: dict[PartRequest, WaitingJob] = field(default_factory=dict)
    joined: list[tuple[PartRequest, WaitingJob]] = field(default_factory=list)


class _Memory:
    """The memory of a session between calls."""

    def __init__(self) -> None:
        self.admitted: dict[PartRequest, tuple[float, Admitted | OarpyError]] = {}
        self.queues: PlannedQueues | None = None


_MEMORIES: WeakKeyDictionary[KeptReader, _Memory] = WeakKeyDictionary()


def admitted(context: CallContext, request: PartRequest) -> Admitted:
    """Return the admitted submission for a request, as the rules decided lately. Raises as ``oarsub``."""
    known = _memory(context).admitted
    answer = known.get(request)
    if answer is None or answer[0] < time.monotonic() - _ADMITTED_FOR:
        if len(known) > _MOST_ADMITTED:
            known.clear()
        try:
            answer = time.monotonic(), ask(context, request)
        except REFUSALS as error:
            answer = time.monotonic(), error
        known[request] = answer
    if isinstance(answer[1], OarpyError):
        raise answer[1]
    return answer[1]


def admit_all(context: CallContext, requests: Iterable[PartRequest]) -> None:
    """Let the rules look at many requests at once, except requests that they have answered lately."""
    known, since = _memory(context).admitted, time.monotonic() - _ADMITTED_FOR
    unknown = [
        wanted_request
        for wanted_request in dict.fromkeys(requests)
        if wanted_request not in known or known[wanted_request][0] < since
    ]
    if len(unknown) < _TOGETHER:
        return
    if len(known) > _MOST_ADMITTED:
        known.clear()
    for request, answer in ask_each(context, unknown).items():
        known[request] = time.monotonic(), answer


def queues(context: CallContext, age: float) -> PlannedQueues:
    """Return the queues as they are, or were at most ``age`` seconds ago. The caller's transaction sees one state."""
    memory = _memory(context)
    if memory.queues is None or memory.queues.read_at < time.monotonic() - age:
        reader = context.reader.get()
        read = reader.read(context.connection, int(time.time()), only_places=True).snapshot
        snapshot = replace(read, explained=False)
        there = [job.id for job in snapshot.waiting] + [job.id for job in snapshot.holding] + [*snapshot.outcomes]
        completions = Completions(snapshot, SiteOrders(), reader.matchers)
        last = max((job.submitted for job in snapshot.waiting), default=snapshot.now)
        memory.queues = PlannedQueues(
            snapshot, time.monotonic(), completions, max(there, default=0), max(last, snapshot.now)
        )
    return memory.queues


def behind_all(context: CallContext, planned: PlannedQueues, request: PartRequest) -> WaitingJob:
    """Return the job that would join behind all others. Raises as ``oarsub``."""
    job = planned.asked.get(request)
    if job is None:
        job = planned.asked[request] = _new_job(context, planned, request, _BEHIND)
    return job


def in_order(context: CallContext, planned: PlannedQueues, requests: Sequence[PartRequest]) -> list[WaitingJob]:
    """Return the jobs that join first, in this order; a refused request does not join."""
    known = 0
    while known < min(len(requests), len(planned.joined)) and planned.joined[known][0] == requests[known]:
        known += 1
    del planned.joined[known:]
    for request in requests[known:]:
        with suppress(OarpyError):
            planned.joined.append((request, _new_job(context, planned, request, 0)))
    return [job for _, job in planned.joined]


def equal_jobs(context: CallContext, planned: PlannedQueues, request: PartRequest, count: int) -> list[WaitingJob]:
    """Return ``count`` equal jobs, in the order in which they join. Raises as ``oarsub``."""
    first = _new_job(context, planned, request, 0)
    planned.next_number += count
    return [structs.replace(first, id=first.id + rank) for rank in range(count)]


def orders() -> SiteOrders:
    """Return the orders of queues of the site."""
    return SiteOrders()


def _new_job(context: CallContext, planned: PlannedQueues, request: PartRequest, above: int) -> WaitingJob:
    """Return a job for a request, with the resources that its conditions admit."""
    planned.next_number += 1
    job = WaitingJob.of_submission(admitted(context, request).submission, planned.next_number + above, planned.joins_at)
    # kept by the reader, where the snapshot looks for them
    context.reader.get().resolve(context.connection, conditions([job]))
    return job


def _memory(context: CallContext) -> _Memory:
    return _MEMORIES.setdefault(context.reader, _Memory())
