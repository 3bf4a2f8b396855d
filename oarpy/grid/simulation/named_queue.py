"""The queue of a cluster whose processors have names, planned by the function that decides on real clusters.

A queue whose policy foresees every start keeps its plan. It stands until an event that it did not foresee::

    joins behind all others    planned alone, on the timeline that was kept
    starts as planned          holds what the plan has for it
    ends before its walltime,  the queue is planned from nothing at the next question
    leaves, is claimed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from math import inf

from oarpy.grid.simulation.queues import HeldProcessors, JobsOutside, QueuedJob, completions_or_never
from oarpy.grid.simulation.scenario import QueuePolicy
from oarpy.model.request import Group, Level
from oarpy.scheduler.decide import decide
from oarpy.scheduler.forecast.completions import Completions
from oarpy.scheduler.forecast.queue_in_plan import QueueInPlan
from oarpy.scheduler.order.queue_orders import ORDERS
from oarpy.scheduler.plan import Placement
from oarpy.scheduler.resources.bit_sets import lowest
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.resources.platform import RESOURCE_ID
from oarpy.scheduler.snapshot import Alternative, HoldingJob, Snapshot, WaitingJob
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.production import platform_of

_USER = "grid"
_ANY_LENGTH = 1.0
_OUTSIDE = 1 << 40
"""Numbers of jobs that are not in the queue are above this, so that they come behind all that are."""


class NamedQueue:
    """A cluster of cores with one queue, planned from nothing. A job keeps its processors from its start to its end."""

    def __init__(self, procs: int, policy: QueuePolicy) -> None:
        platform = platform_of(Machine(procs))
        self._empty = Snapshot(now=0, platform=platform, policy=policy, explained=False)
        self._matchers = Matchers(platform)
        self._easy = policy == "easy"
        self._waiting: dict[int, WaitingJob] = {}
        self._held: dict[int, HoldingJob] = {}
        self._joined = 0
        self.due = inf

    @property
    def idle(self) -> int:
        """The number of processors that no running job holds and nobody claims."""
        return self.idle_bits.bit_count()

    @property
    def idle_bits(self) -> int:
        """The processors that are neither held nor claimed."""
        idle = self._empty.platform.everything
        for held in self._held.values():
            idle &= ~(held.bits or 0)
        return idle

    def holders(self) -> Set[int]:
        """Return the jobs that hold processors."""
        return self._held.keys()

    def held(self, number: int) -> HeldProcessors:
        """Return the processors that a job holds."""
        job = self._held[number]
        bits = job.bits or 0
        return HeldProcessors(bits.bit_count(), job.end, bits)

    def planned_bits(self, number: int) -> int | None:
        """Return None: only a kept plan has processors for waiting jobs."""
        return None

    def join(self, job: QueuedJob, now: float) -> None:
        """Let a job join the end of the queue."""
        self._waiting[job.number] = _asking(job, self._next())
        self.due = now

    def leave(self, number: int) -> None:
        """Take a job out of the queue."""
        del self._waiting[number]
        self.due = -inf

    def hold(self, number: int, procs: int, end: float, now: float) -> None:
        """Hold the lowest idle processors for a job up to its predicted ``end``."""
        bits = lowest(self.idle_bits, procs)
        self._held[number] = HoldingJob(self._next(), _USER, now, end - now, bits=bits)
        self.due = now

    def free(self, number: int, now: float) -> None:
        """Free the processors of a job."""
        del self._held[number]
        self.due = now

    def plan(self, now: float) -> list[int]:
        """Plan the whole queue, unless nothing can have changed; return the jobs that start now."""
        if not self._waiting or now < self.due:
            return []
        placed = self._placements(now)
        started = [number for number, job in self._waiting.items() if _start(placed[job.id]) <= now]
        for number in started:
            job = self._waiting.pop(number)
            self._held[number] = _holding(job, placed[job.id].bits, now)
        self.due = min((_start(placed[job.id]) for job in self._waiting.values()), default=inf)
        if self._easy and self._waiting:
            self.due = inf
        return started

    def completions(self, jobs: Sequence[QueuedJob], now: float) -> list[float]:
        """Return when jobs would end if each took its walltime, as a real cluster estimates it."""
        wanted = [self._waiting[job.number].id if job.number in self._waiting else _outside(job) for job in jobs]
        return Completions(self._snapshot(now), matchers=self._matchers).ends(wanted)

    def completions_outside(self, jobs: JobsOutside, now: float) -> list[float]:
        """Return the ECTs of jobs outside the queue; infinite for jobs that are too large."""
        return completions_or_never(self.completions, jobs.jobs, now)

    def _next(self) -> int:
        """Return the id of the next that joins or is claimed."""
        self._joined += 1
        return self._joined

    def _placements(self, now: float) -> Mapping[int, Placement]:
        """Plan from nothing."""
        return decide(self._snapshot(now), matchers=self._matchers).plan.by_job()

    def _snapshot(self, now: float) -> Snapshot:
        """Return the snapshot to plan. A job that should be over holds nothing any more, except under EASY."""
        held = tuple(job for job in self._held.values() if self._easy or job.end > now)
        return replace(self._empty, now=now, holding=held, waiting=tuple(self._waiting.values()))


class PlannedNamedQueue(NamedQueue):
    """The same for a policy that foresees every start: its plan is kept while it stands."""

    def __init__(self, procs: int, policy: QueuePolicy) -> None:
        super().__init__(procs, policy)
        self._kept: QueueInPlan | None = None
        self._planned_at = -inf
        self._asked: dict[tuple[int, float], WaitingJob] = {}
        """Jobs outside the queue, by size and walltime: each stands for all jobs that would start at the same time."""
        self._in_turn = policy == "fcfs"

    def join(self, job: QueuedJob, now: float) -> None:
        """Let a job join the end of the queue."""
        kept = self._standing(now) if self._kept is not None else None
        super().join(job, now)
        if kept is not None and not kept.join(self._waiting[job.number]):
            self._kept = None

    def planned_bits(self, number: int) -> int | None:
        """Return the processors that the plan has for a job, if it stands."""
        claim = None if self._kept is None else self._kept.claim(self._waiting[number].id)
        return None if claim is None else claim.bits

    def leave(self, number: int) -> None:
        """Take a job out of the queue."""
        super().leave(number)
        self._kept = None

    def hold(self, number: int, procs: int, end: float, now: float) -> None:
        """Hold the lowest idle processors for a job up to its predicted ``end``."""
        super().hold(number, procs, end, now)
        self._kept = None

    def free(self, number: int, now: float) -> None:
        """Free the processors of a job."""
        if self._held[number].end > now:
            self._kept = None
        super().free(number, now)

    def plan(self, now: float) -> list[int]:
        """Return the jobs that start now, by the plan that stands."""
        if not self._waiting or now < self.due:
            return []
        kept = self._standing(now)
        claims = {number: kept.claim(job.id) for number, job in self._waiting.items()}
        starting = {number: claim for number, claim in claims.items() if claim is not None and claim.start <= now}
        for number, claim in starting.items():
            self._held[number] = _holding(self._waiting.pop(number), claim.bits, now)
        if starting:
            kept.move_on(self._snapshot(now), [self._held[number] for number in starting])
        self.due = min(
            (claim.start for claim in claims.values() if claim is not None and claim.start > now), default=inf
        )
        return list(starting)

    def completions(self, jobs: Sequence[QueuedJob], now: float) -> list[float]:
        """Return when jobs would end if each took its walltime, as a real cluster estimates it."""
        kept = self._standing(now)
        there = [self._waiting.get(job.number) or self._alike(job) for job in jobs]
        times = kept.times([known.id for known in there if known.id < _OUTSIDE])
        times |= kept.times_behind(list({known.id: known for known in there if known.id >= _OUTSIDE}.values()))
        return [times[known.id].start + job.walltime for known, job in zip(there, jobs, strict=True)]

    def _alike(self, job: QueuedJob) -> WaitingJob:
        """Return the job that stands for all jobs outside that are like this one.

        First come, first served, processors only become free behind the last start, so the length of a job does not
        matter.
        """
        shape = job.procs, _ANY_LENGTH if self._in_turn else job.walltime
        if shape not in self._asked:
            self._asked[shape] = _asking(QueuedJob(job.number, *shape), _OUTSIDE + len(self._asked))
        return self._asked[shape]

    def _standing(self, now: float) -> QueueInPlan:
        """Return the plan of all waiting jobs, made from nothing unless the kept plan stands."""
        if self._kept is None or self._is_late(self._kept, now):
            self._kept = QueueInPlan(self._snapshot(now), (), ORDERS, self._matchers)
        elif now > self._planned_at:
            self._kept.move_on(self._snapshot(now))
        self._planned_at = now
        return self._kept

    def _is_late(self, kept: QueueInPlan, now: float) -> bool:
        """Tell whether a job should have started before ``now``."""
        claims = (kept.claim(job.id) for job in self._waiting.values())
        return now > self._planned_at and any(claim is not None and claim.start < now for claim in claims)


def _asking(job: QueuedJob, number: int) -> WaitingJob:
    way = Alternative((Group((Level(RESOURCE_ID, job.procs),)),), job.walltime)
    return WaitingJob(number, _USER, alternatives=(way,))


def _outside(job: QueuedJob) -> WaitingJob:
    return _asking(job, _OUTSIDE + job.number)


def _holding(job: WaitingJob, bits: int, now: float) -> HoldingJob:
    return HoldingJob(job.id, _USER, now, job.alternatives[0].walltime, bits=bits)


def _start(placed: Placement) -> float:
    return inf if placed.start is None else placed.start
