"""Processors as a count: all that the order-only baselines need to know of a flat machine."""

from __future__ import annotations

from bisect import bisect_left, insort
from math import inf


class ProcessorPool:
    """A machine of ``procs`` equal processors and the jobs running on it, by predicted end.

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
        """How many processors nobody holds."""
        return self._procs - self._held

    def earliest(self, procs: int) -> tuple[float, int]:
        """Return the predicted end by which ``procs`` processors are free, and how many more are free then.

        More are asked for than are free now, and no more than the machine has.
        """
        instant, free = -inf, self.free
        for end, _, released in self._running:
            if free >= procs and end > instant:
                break
            instant, free = end, free + released
        return instant, free - procs
