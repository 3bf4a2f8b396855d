"""The simulator's fast engine for first come first served and EASY backfilling on a flat machine.

Both count processors instead of naming them, which is much faster than the planner's own ``fcfs`` and ``easy``
(:mod:`oarpy.scheduler.passes.backfilling`); a property test holds one against the other. EASY follows D. Lifka, "The
ANL/IBM SP scheduling system" (JSSPP 1995). EASY keeps one reservation, for the head of the queue. Another job starts
when enough processors are free, and it either ends by the head's start or uses processors that the head leaves over::

    1 1 1 2 2 2        job 2 is the head, and starts at 3; job 3 ends by then
    3 3 . 2 2 2
    4 4 4 4 4 4        job 4 takes what the head leaves over
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from oarpy.profiles.policies import shadow
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.queue_order import Rank, ranks
from oarpy.simulation.traces.trace import TraceJob


class ProcessorPool:
    """A machine of ``procs`` equal processors and the jobs running on it, by predicted end (seconds).

    A job holds its processors until its completion has been handled, even at its predicted end.
    """

    def __init__(self, procs: int) -> None:
        self._procs = procs
        self._held = 0
        self._running: list[tuple[float, int, int]] = []
        self._predicted: dict[int, float] = {}

    def start(self, job: int, procs: int, predicted_end: float) -> None:
        """Give ``procs`` processors to ``job`` until it ends, foreseen at ``predicted_end``."""
        self._held += procs
        self._predicted[job] = predicted_end
        insort(self._running, (predicted_end, job, procs))

    def end(self, job: int) -> None:
        """Take back the processors of ``job``."""
        place = bisect_left(self._running, (self._predicted.pop(job), job, 0))
        self._held -= self._running.pop(place)[2]

    @property
    def free(self) -> int:
        """The number of free processors."""
        return self._procs - self._held

    def earliest(self, procs: int) -> tuple[float, int]:
        """Return the predicted end by which ``procs`` processors are free, and how many more are free then.

        ``procs`` is more than are free now, and at most the size of the machine.
        """
        return shadow(procs, self.free, self._running)


class CountingFcfs:
    """Start the head of the queue when it fits; no job overtakes it."""

    def __init__(self, jobs: Sequence[TraceJob], order: str, machine: Machine) -> None:
        self._jobs = jobs
        self._ranks = ranks(order, jobs)
        self._pool = ProcessorPool(machine.procs)
        self._queue: list[tuple[Rank, int]] = []

    def planned(self, job: int) -> float | None:
        """Return the planned start of a waiting job; only the head of the queue has a planned start."""
        if not self._queue or self._queue[0][1] != job:
            return None
        return self._pool.earliest(self._jobs[job].procs)[0]

    def processors(self, job: int) -> int | None:
        """Return nothing: processors are counted."""
        return None

    def arrive(self, job: int, now: float) -> None:
        """Queue ``job`` by its rank."""
        insort(self._queue, (self._ranks[job], job))

    def complete(self, job: int, now: float) -> None:
        """Free the processors of ``job``."""
        self._pool.end(job)

    def schedule(self, now: float) -> list[int]:
        """Start jobs in order until one does not fit."""
        free = self._pool.free
        fitting = 0
        for _, job in self._queue:
            if self._jobs[job].procs > free:
                break
            free -= self._jobs[job].procs
            fitting += 1
        if not fitting:
            return []
        return self._start([job for _, job in self._queue[:fitting]], now)

    def _start(self, started: list[int], now: float) -> list[int]:
        """Take jobs out of the queue and give them their processors."""
        for job in started:
            self._pool.start(job, self._jobs[job].procs, now + self._jobs[job].estimate)
        if started:
            gone = set(started)
            self._queue = [entry for entry in self._queue if entry[1] not in gone]
        return started


class CountingEasy(CountingFcfs):
    """EASY backfilling: a job that does not delay the head of the queue starts.

    Between two completions the head's reservation stands still. A job that did not fit still does not, because free
    processors only shrink and time only passes. So a pass after an arrival looks at the new job alone.
    """

    def __init__(self, jobs: Sequence[TraceJob], order: str, machine: Machine) -> None:
        super().__init__(jobs, order, machine)
        self._reserved_for: int | None = None
        self._shadow = 0.0
        self._extra = 0
        self._arrived: list[tuple[Rank, int]] = []

    def arrive(self, job: int, now: float) -> None:
        """Queue ``job`` by its rank, as a job not looked at yet."""
        super().arrive(job, now)
        self._arrived.append((self._ranks[job], job))

    def complete(self, job: int, now: float) -> None:
        """Free the processors of ``job``: the reservation of the head must be found anew."""
        super().complete(job, now)
        self._reserved_for = None

    def schedule(self, now: float) -> list[int]:
        """Start the head while it fits, then backfill behind it."""
        started = super().schedule(now)
        arrived, self._arrived = sorted(self._arrived), []
        if started:
            self._reserved_for = None
        if not self._queue:
            return started
        head = self._queue[0][1]
        if head != self._reserved_for:
            self._reserved_for = head
            self._shadow, self._extra = self._pool.earliest(self._jobs[head].procs)
            arrived = self._queue[1:]
        return started + self._backfill(arrived, now)

    def _backfill(self, candidates: Sequence[tuple[Rank, int]], now: float) -> list[int]:
        """Start candidates that end by the head's start (``_shadow``) or use processors it leaves (``_extra``)."""
        free = self._pool.free
        started: list[int] = []
        for _, job in candidates:
            if free <= 0:
                break
            wanted = self._jobs[job]
            if wanted.procs > free:
                continue
            if now + wanted.estimate > self._shadow:
                if wanted.procs > self._extra:
                    continue
                self._extra -= wanted.procs
            free -= wanted.procs
            started.append(job)
        return self._start(started, now)
