"""Jobs that drain the machine: once such a job is submitted, no other job starts until it has run."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence, Set

from oarpy.simulation.engines.engine import VirtualScheduler


class Draining:
    """Wraps a scheduler: the jobs of ``urgent`` run alone, by submission, and hold back every other start meanwhile."""

    def __init__(self, inner: VirtualScheduler, urgent: Set[int]) -> None:
        self._inner = inner
        self._urgent = urgent
        self._waiting: deque[int] = deque()
        self._alone: int | None = None
        self._running = 0

    def arrive(self, job: int, now: float) -> None:
        """Queue ``job`` here when it is urgent, else with the inner scheduler."""
        if job in self._urgent:
            self._waiting.append(job)
        else:
            self._inner.arrive(job, now)

    def complete(self, job: int, now: float) -> None:
        """Note the end of ``job``."""
        if job == self._alone:
            self._alone = None
        else:
            self._running -= 1
            self._inner.complete(job, now)

    def schedule(self, now: float) -> Sequence[int]:
        """Start an urgent job on the empty machine; let the inner scheduler work only when none waits or runs."""
        if self._alone is not None:
            return []
        if self._waiting:
            if self._running:
                return []
            self._alone = self._waiting.popleft()
            return [self._alone]
        started = self._inner.schedule(now)
        self._running += len(started)
        return started
