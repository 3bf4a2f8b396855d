"""Processors as a count: all that the order-only baselines need to know of a flat machine."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator


class ProcessorPool:
    """A machine of ``procs`` equal processors and the jobs running on it, by predicted end.

    A job holds its processors before its predicted end, as in the planner: at that very instant they count as free even
    if the completion is handled after the pass.
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

    def free(self, now: float) -> int:
        """Return how many processors are free at ``now``."""
        free = self._procs - self._held
        for end, _, procs in self._running:
            if end > now:
                break
            free += procs
        return free

    def earliest(self, procs: int, now: float) -> tuple[float, int]:
        """Return the first instant when ``procs`` processors are free, and how many more are free then."""
        instant, free = now, self.free(now)
        for end, released in self._later(now):
            if free >= procs and end > instant:
                break
            instant, free = end, free + released
        return instant, free - procs

    def _later(self, now: float) -> Iterator[tuple[float, int]]:
        return ((end, procs) for end, _, procs in self._running if end > now)
