"""The free slots of clusters for a program that the broker may spread: the questions to clusters, and their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, inf

from oarpy.grid.broker.conversations import CallBatch, ClusterCall, Conversation
from oarpy.grid.calls.parts import FreeSlot, PartRequest
from oarpy.grid.calls.table import ClusterSilent, Slots
from oarpy.grid.core.coallocation.common_start import ParallelRequest
from oarpy.grid.core.metajobs import Steps
from oarpy.store.grid.broker_jobs import GridComponentRow, GridJobRow, NewGridComponent, NewGridJob
from oarpy.store.grid.clusters import GridClusterRow
from oarpy.store.grid.metajobs import MetajobRow, NewMetajob

HORIZON = 366 * 86_400.0
"""Seconds for which clusters are asked for free processors."""
PATIENCE = 10.0
"""Seconds that a cluster has for its answer."""
LEFT = "it is not in use any more"
_NEEDED = {"reserve": "it reserves nothing", "foresee": "it does not say when processors are free"}


@dataclass(frozen=True, slots=True)
class SlotsFound:
    """The answers of clusters: free processors, and words about them, or why there are none.

    ``silent``: some were silent.
    """

    free: Mapping[str, Steps]
    words: Mapping[str, str]
    silent: bool

    def of(self, rows: Sequence[GridClusterRow]) -> SlotsFound:
        """Return the answers of these clusters: any other one was disabled since it was asked, and counts as silent."""
        names = {row.name for row in rows}
        left = {name: LEFT for name in self.free if name not in names}
        free = {name: steps for name, steps in self.free.items() if name not in left}
        return replace(self, free=free, words={**self.words, **left}, silent=self.silent or bool(left))


def objection(row: GridClusterRow, user: str, tolerance: float) -> str:
    """Say why a cluster gets no part; empty if it may. Clocks may be off by ``tolerance`` seconds."""
    if closed := row.refusal_to(user):
        return closed
    if row.procs is None:
        return "it was not heard yet"
    if missing := next((words for ability, words in _NEEDED.items() if ability not in row.abilities), ""):
        return missing
    offset = row.clock_offset or 0.0
    return f"its clock is {offset:+.1f} s off" if abs(offset) > tolerance else ""


def parallel_request(walltime: float, metajob: MetajobRow | NewMetajob) -> ParallelRequest:
    """Return the request of a job as the core knows it."""
    end_by = inf if metajob.end_by is None else metajob.end_by
    return ParallelRequest(metajob.procs, walltime, metajob.overhead, metajob.at_most or {}, end_by)


def part_request(
    job: GridJobRow | NewGridJob, component: GridComponentRow | NewGridComponent, unit: str, procs: int, walltime: float
) -> PartRequest:
    """Return the request for a part of ``procs`` processors; ``walltime`` in seconds on its cluster."""
    return PartRequest(
        job.user,
        f"{unit}={procs}",
        procs,
        walltime,
        job.queue,
        component.properties,
        job.project,
        component.types,
    )


def look_for_slots(
    rows: Sequence[GridClusterRow],
    job: GridJobRow | NewGridJob,
    component: GridComponentRow | NewGridComponent,
    metajob: MetajobRow | NewMetajob,
    own: Mapping[str, Sequence[str]],
    tolerance: float,
    now: float,
) -> Conversation[object]:
    """Ask clusters for free processors for parts of a job, all at the same time.

    Its ``own`` parts there count as free.
    """
    left_out = {row.name: reason for row in rows if (reason := objection(row, job.user, tolerance))}
    slowest = min((row.speed for row in rows if row.name not in left_out), default=1)
    length = parallel_request(job.walltime, metajob).spread(slowest)
    request, begin = part_request(job, component, metajob.unit, 1, length), floor(now)
    wanted = {row.name: own.get(row.name, ()) for row in rows if row.name not in left_out}
    calls = [
        ClusterCall(name, Slots(request, begin, begin + HORIZON, without), 2 * PATIENCE)
        for name, without in wanted.items()
    ]
    answers = yield CallBatch(calls, PATIENCE)
    free: dict[str, Steps] = {}
    words = dict(left_out)
    silent = any(words == "it was not heard yet" for words in left_out.values())
    for name, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, Sequence) and answer:
            steps = [(slot.begin, slot.procs) for slot in answer if isinstance(slot, FreeSlot)]
            free[name] = steps
            words[name] = f"{steps[0][1]} free now, {max(procs for _, procs in steps)} at most"
        else:
            words[name] = str(answer)
            silent = silent or isinstance(answer, ClusterSilent)
    return SlotsFound(free, words, silent)
