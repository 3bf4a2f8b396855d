"""Queues of clusters whose processors are counted: first come first served, conservative backfilling, and EASY.

The first two place every job of the queue among the free processors. Their plan stands until an event that it did not
foresee. So an end at its predicted time costs nothing, and a job that joins at the end is placed alone::

    free  8 |        ______     a job of 3 processors that joins now is placed here
          4 |   ____|      |____|...
          0 |__|
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence, Set
from itertools import accumulate
from math import inf

import numpy as np

from oarpy.grid.core.broker_state import Seconds
from oarpy.grid.simulation.queues import HeldProcessors, JobsOutside, QueuedJob, completions_or_never
from oarpy.profiles.policies import easy_starts, shadow
from oarpy.profiles.profile import Profile


class CountedQueue(ABC):
    """The common part of these queues: waiting jobs, and held processors with their ends, by the number of the job."""

    def __init__(self, procs: int) -> None:
        self._procs = procs
        self._waiting: OrderedDict[int, QueuedJob] = OrderedDict()
        """In the order of joining. The first is needed often; a dict would look for it behind the jobs that left."""
        self._held: dict[int, tuple[float, int]] = {}
        self._idle = procs

    @property
    def idle(self) -> int:
        """The number of processors that no running job holds and nobody claims."""
        return self._idle

    def holders(self) -> Set[int]:
        """Return the jobs that hold processors."""
        return self._held.keys()

    def held(self, number: int) -> HeldProcessors:
        """Return the processors that a job holds."""
        end, procs = self._held[number]
        return HeldProcessors(procs, end)

    def planned_bits(self, number: int) -> int | None:
        """Return nothing: processors have no names here."""
        return None

    def join(self, job: QueuedJob, now: float) -> None:
        """Let a job join the end of the queue."""
        self._waiting[job.number] = job

    def leave(self, number: int) -> None:
        """Take a job out of the queue."""
        del self._waiting[number]

    def hold(self, number: int, procs: int, end: float, now: float) -> None:
        """Hold processors for a job up to its predicted ``end``."""
        self._held[number] = (end, procs)
        self._idle -= procs

    def free(self, number: int, now: float) -> None:
        """Free the processors of a job."""
        self._idle += self._held.pop(number)[1]

    @abstractmethod
    def completions(self, jobs: Sequence[QueuedJob], now: float) -> list[float]:
        """Return when jobs would end if each took its walltime."""

    def completions_outside(self, jobs: JobsOutside, now: float) -> Sequence[float] | Seconds:
        """Return the ECTs of jobs outside the queue; infinite for jobs that are too large."""
        return completions_or_never(self.completions, jobs.jobs, now)

    def _start(self, numbers: Sequence[int], now: float) -> None:
        for number in numbers:
            job = self._waiting.pop(number)
            CountedQueue.hold(self, number, job.procs, now + job.walltime, now)


class PlannedQueue(CountedQueue):
    """A queue whose jobs all have a planned start. The plan stands until an event that it did not foresee."""

    def __init__(self, procs: int) -> None:
        super().__init__(procs)
        self.due = inf
        self._stands = False
        self._starts: dict[int, float] = {}

    @abstractmethod
    def _begin_plan(self, now: float) -> None:
        """Begin a plan with the held processors."""

    @abstractmethod
    def _place(self, job: QueuedJob, now: float) -> float:
        """Return the start of a job behind all others, and reserve its processors."""

    @abstractmethod
    def _behind(self, jobs: Sequence[QueuedJob], now: float) -> list[float]:
        """Return when each of these jobs would start behind the queue."""

    def join(self, job: QueuedJob, now: float) -> None:
        """Let a job join; a plan that stands gets one more place."""
        super().join(job, now)
        if self._stands:
            start = self._starts[job.number] = self._place(job, now)
            self.due = min(self.due, start)
        else:
            self.due = -inf

    def leave(self, number: int) -> None:
        """Take a job out of the queue; the jobs behind it may move up."""
        super().leave(number)
        self._fall()

    def hold(self, number: int, procs: int, end: float, now: float) -> None:
        """Hold processors that the plan may have given to others."""
        super().hold(number, procs, end, now)
        self._fall()

    def free(self, number: int, now: float) -> None:
        """Free the processors of a job; before its predicted end, others may move up."""
        if self._held[number][0] > now:
            self._fall()
        super().free(number, now)

    def plan(self, now: float) -> list[int]:
        """Return the jobs that start now."""
        if not self._waiting:
            return []
        self._plan(now)
        if self.due > now:
            return []
        started = [number for number in self._waiting if self._starts[number] <= now]
        for number in started:
            del self._starts[number]
        self._start(started, now)
        self.due = min(self._starts.values(), default=inf)
        return started

    def completions(self, jobs: Sequence[QueuedJob], now: float) -> list[float]:
        """Return when jobs would end if each took its walltime."""
        self._plan(now)
        starts = self._starts
        behind = iter(self._behind([job for job in jobs if job.number not in starts], now))
        return [job.walltime + (starts[job.number] if job.number in starts else next(behind)) for job in jobs]

    def _fall(self) -> None:
        """Let the plan be made again when it is needed next."""
        self._stands = False
        self.due = -inf if self._waiting else inf

    def _plan(self, now: float) -> None:
        """Make the plan again if it does not stand."""
        if self._stands:
            return
        self._stands = True
        self._begin_plan(now)
        place = self._place
        self._starts = {number: place(job, now) for number, job in self._waiting.items()}
        self.due = min(self._starts.values(), default=inf)


class FcfsQueue(PlannedQueue):
    """First come first served: no job starts before a job ahead of it.

    So from the last planned start on processors only become free, and the earliest start of the next job does not
    depend on how long it takes.
    """

    def __init__(self, procs: int) -> None:
        super().__init__(procs)
        self._floor = -inf
        self._left = procs
        self._ends: list[float] = []
        """Predicted ends from the floor on, in order; at each, ``_freed`` processors are freed."""
        self._freed: list[int] = []

    def _begin_plan(self, now: float) -> None:
        self._floor = now
        held, self._left = self._held_on(now)
        self._ends, self._freed = [end for end, _ in held], [procs for _, procs in held]

    def _held_on(self, now: float) -> tuple[list[tuple[float, int]], int]:
        """Return the holdings beyond ``now``, the first predicted end first, and how many processors are left."""
        ends = sorted(hold for hold in self._held.values() if hold[0] > now)
        return ends, self._procs - sum(procs for _, procs in ends)

    def _place(self, job: QueuedJob, now: float) -> float:
        self._advance(now)
        passed = 0
        while self._left < job.procs:
            self._left += self._freed[passed]
            passed += 1
        if passed:
            self._floor = self._ends[passed - 1]
            del self._ends[:passed], self._freed[:passed]
        self._left -= job.procs
        end = self._floor + job.walltime
        place = bisect_right(self._ends, end)
        self._ends.insert(place, end)
        self._freed.insert(place, job.procs)
        return self._floor

    def join(self, job: QueuedJob, now: float) -> None:
        """Let a job join behind the jobs that it does not overtake."""
        due = self.due if self._waiting else -inf
        super().join(job, now)
        if not self._stands:
            self.due = due

    def plan(self, now: float) -> list[int]:
        """Return the jobs that start now, from the head of the queue; only ECTs need the whole plan."""
        if self.due > now or not self._waiting:
            return []
        ends, left = self._held_on(now)
        started = []
        for job in self._waiting.values():
            if job.procs > left:
                break
            left -= job.procs
            started.append(job.number)
        if started:
            for number in started:
                self._starts.pop(number, None)
            self._start(started, now)
            ends, left = self._held_on(now)
        self.due = shadow(next(iter(self._waiting.values())).procs, left, ends)[0] if self._waiting else inf
        return started

    def completions_outside(self, jobs: JobsOutside, now: float) -> Seconds:
        """Return the ECTs of jobs outside the queue; infinite for jobs that are too large."""
        self._plan(now)
        self._advance(now)
        starts: list[float] = []
        instant, free, ahead = self._floor, self._left, zip(self._ends, self._freed, strict=True)
        for size in jobs.sizes:
            while free < size:
                instant, freed = next(ahead, (inf, size))
                free += freed
            starts.append(instant)
        ends: Seconds = np.array(starts, dtype=np.float64)[jobs.size]
        ends += jobs.walltimes
        return ends

    def _behind(self, jobs: Sequence[QueuedJob], now: float) -> list[float]:
        instants, free = self._steps(now)
        return [instants[bisect_left(free, job.procs)] for job in jobs]

    def _steps(self, now: float) -> tuple[list[float], list[int]]:
        """Return how many processors are free behind the queue, from which instants on."""
        self._advance(now)
        return [self._floor, *self._ends], list(accumulate(self._freed, initial=self._left))

    def _advance(self, now: float) -> None:
        """Cut the plan's past: its tail begins at ``now`` at the earliest."""
        if self._floor < now:
            self._floor = now
            over = bisect_right(self._ends, now)
            self._left += sum(self._freed[:over])
            del self._ends[:over], self._freed[:over]


class ConservativeQueue(PlannedQueue):
    """Conservative backfilling: a job gets the earliest place that moves none ahead of it."""

    def __init__(self, procs: int) -> None:
        super().__init__(procs)
        self._profile = Profile(procs, -inf, ())
        self._no_sooner: dict[int, float] = {}
        """When jobs would have started behind the queue.

        While the plan stands, later answers are not earlier, as it grows.
        """

    def _begin_plan(self, now: float) -> None:
        self._profile = Profile(self._procs, now, self._held.values())
        self._no_sooner.clear()

    def _place(self, job: QueuedJob, now: float) -> float:
        start = self._profile.earliest(job.procs, job.walltime, max(self._no_sooner.get(job.number, now), now))
        self._profile.take(start, start + job.walltime, job.procs)
        return start

    def _behind(self, jobs: Sequence[QueuedJob], now: float) -> list[float]:
        starts, earliest = self._no_sooner, self._profile.earliest
        for job in jobs:
            starts[job.number] = earliest(job.procs, job.walltime, max(starts.get(job.number, now), now))
        return [starts[job.number] for job in jobs]


class EasyQueue(CountedQueue):
    """EASY: a job that does not delay the head of the queue may start. There is no plan behind the head."""

    def __init__(self, procs: int) -> None:
        super().__init__(procs)
        self.due = inf

    def join(self, job: QueuedJob, now: float) -> None:
        """Let a job join the end of the queue."""
        super().join(job, now)
        self.due = -inf

    def leave(self, number: int) -> None:
        """Take a job out of the queue."""
        super().leave(number)
        self.due = -inf

    def hold(self, number: int, procs: int, end: float, now: float) -> None:
        """Hold processors for a job."""
        super().hold(number, procs, end, now)
        self.due = -inf

    def free(self, number: int, now: float) -> None:
        """Free the processors of a job."""
        super().free(number, now)
        self.due = -inf

    def plan(self, now: float) -> list[int]:
        """Return the jobs that start now; none if nothing has happened since the last look."""
        if self.due > now or not self._waiting:
            return []
        self.due = inf
        started = easy_starts(list(self._waiting.values()), list(self._held.values()), self._idle, now)
        self._start(started, now)
        return started

    def completions(self, jobs: Sequence[QueuedJob], now: float) -> list[float]:
        """Return when jobs would end: rounds are simulated until they have started."""
        known = self._played([job for job in jobs if job.number in self._waiting], (), now)
        return [
            job.walltime + (known[job.number] if job.number in known else self._played([job], [job], now)[job.number])
            for job in jobs
        ]

    def _played(self, jobs: Sequence[QueuedJob], joining: Sequence[QueuedJob], now: float) -> dict[int, float]:
        """Return the starts of the given jobs, if each job takes its walltime and only ``joining`` come."""
        waiting = {job.number: job for job in (*self._waiting.values(), *joining)}
        held, idle = sorted(self._held.values()), self._idle
        left = {job.number for job in jobs}
        starts: dict[int, float] = {}
        while left:
            for number in easy_starts(list(waiting.values()), held, idle, now):
                job = waiting.pop(number)
                starts[number] = now
                left.discard(number)
                idle -= job.procs
                held.append((now + job.walltime, job.procs))
            held.sort()
            now = max(now, held[0][0]) if held else now
            while held and held[0][0] <= now:
                idle += held.pop(0)[1]
        return starts
