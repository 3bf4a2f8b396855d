"""A planner of a replay that remembers when it first foresaw the start of each job that had to wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from oarpy.simulation.engines.engine import VirtualScheduler


@dataclass(frozen=True, slots=True)
class FirstPlan:
    """The first planned start of a waiting job: planned at ``planned_at``, for ``start`` (seconds of the replay)."""

    planned_at: float
    start: float


class ForeseeingScheduler(VirtualScheduler, Protocol):
    """A scheduler that knows the planned starts of waiting jobs."""

    def planned(self, job: int) -> float | None:
        """Return the planned start of a waiting job, None without a prediction."""

    def processors(self, job: int) -> int | None:
        """Return the processors of a job that runs or has a place, None where they are only counted."""


class NotingPlanner:
    """Wraps a planner; ``plans`` has, by job, the first plan of each that did not start in the pass of its arrival."""

    def __init__(self, inner: ForeseeingScheduler) -> None:
        self._inner = inner
        self._unplanned: set[int] = set()
        self.plans: dict[int, FirstPlan] = {}

    def arrive(self, job: int, now: float) -> None:
        """Queue ``job``."""
        self._unplanned.add(job)
        self._inner.arrive(job, now)

    def complete(self, job: int, now: float) -> None:
        """Free the resources of ``job``."""
        self._inner.complete(job, now)

    def schedule(self, now: float) -> Sequence[int]:
        """Let the planner decide, and note the first plans."""
        started = self._inner.schedule(now)
        self._unplanned.difference_update(started)
        for job in sorted(self._unplanned):
            if (start := self._inner.planned(job)) is not None:
                self.plans[job] = FirstPlan(now, start)
        self._unplanned.difference_update(self.plans)
        return started
