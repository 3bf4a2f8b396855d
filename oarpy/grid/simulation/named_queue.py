"""The queue of a cluster whose processors have names, planned by the function that decides on real clusters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from math import inf

from oarpy.grid.simulation.queues import JobsOutside, QueuedJob, completions_or_never
from oarpy.grid.simulation.scenario import QueuePolicy
from oarpy.model.request import Group, Level
from oarpy.scheduler.decide import decide
from oarpy.scheduler.forecast.completions import Completions
from oarpy.scheduler.plan import Placement
from oarpy.scheduler.resources.bit_sets import lowest
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.resources.platform import RESOURCE_ID
from oarpy.scheduler.snapshot import Alternative, HoldingJob, Snapshot, WaitingJob
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.production import platform_of

_USER = "grid"


class NamedQueue:
    """A cluster of cores with one queue. A job keeps its processors from its start to its end."""

    def __init__(self, procs: int, policy: QueuePolicy) -> None:
        platform = platform_of(Machine(procs))
        self._empty = Snapshot(now=0, platform=platform, policy=policy)
        self._matchers = Matchers(platform)
        self._easy = policy == "easy"
        self._waiting: dict[int, WaitingJob] = {}
        self._held: dict[int, HoldingJob] = {}
        self._joined = count(1)
        self.due = inf

    @property
    def idle(self) -> int:
        """How many processors are neither held by a running job nor claimed."""
        return self._idle_bits().bit_count()

    def _idle_bits(self) -> int:
        idle = self._empty.platform.everything
        for held in self._held.values():
            idle &= ~(held.bits or 0)
        return idle

    def join(self, job: QueuedJob, now: float) -> None:
        """Let a job join the end of the queue."""
        self._waiting[job.number] = self._asking(job)
        self.due = now

    def leave(self, number: int) -> None:
        """Take a job out of the queue."""
        del self._waiting[number]
        self.due = -inf

    def hold(self, number: int, procs: int, end: float, now: float) -> None:
        """Hold the lowest idle processors for a job up to its predicted ``end``."""
        bits = lowest(self._idle_bits(), procs)
        self._held[number] = HoldingJob(next(self._joined), _USER, now, end - now, bits=bits)
        self.due = now

    def free(self, number: int, now: float) -> None:
        """Free what a job holds."""
        del self._held[number]
        self.due = now

    def plan(self, now: float) -> list[int]:
        """Plan the whole queue, unless nothing can have changed; return who starts now."""
        if not self._waiting or now < self.due:
            return []
        placed = self._placements(self._held.values(), self._waiting.values(), now)
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
        asked = [self._waiting[job.number].id if job.number in self._waiting else self._asking(job) for job in jobs]
        snapshot = self._snapshot(self._held.values(), self._waiting.values(), now)
        return Completions(snapshot, matchers=self._matchers).ends(asked)

    def completions_outside(self, jobs: JobsOutside, now: float) -> list[float]:
        """Return the ECTs of jobs that are not in the queue, infinite for those too large."""
        return completions_or_never(self.completions, jobs.jobs, now)

    def _placements(
        self, holding: Iterable[HoldingJob], waiting: Iterable[WaitingJob], now: float
    ) -> Mapping[int, Placement]:
        """Plan from nothing."""
        return decide(self._snapshot(holding, waiting, now), matchers=self._matchers).plan.by_job()

    def _snapshot(self, holding: Iterable[HoldingJob], waiting: Iterable[WaitingJob], now: float) -> Snapshot:
        """Return what is planned. What should be over holds nothing any more, but under EASY."""
        held = tuple(job for job in holding if self._easy or job.end > now)
        return replace(self._empty, now=now, holding=held, waiting=tuple(waiting))

    def _asking(self, job: QueuedJob) -> WaitingJob:
        way = Alternative((Group((Level(RESOURCE_ID, job.procs),)),), job.walltime)
        return WaitingJob(next(self._joined), _USER, alternatives=(way,))


def _holding(job: WaitingJob, bits: int, now: float) -> HoldingJob:
    return HoldingJob(job.id, _USER, now, job.alternatives[0].walltime, bits=bits)


def _start(placed: Placement) -> float:
    return inf if placed.start is None else placed.start
