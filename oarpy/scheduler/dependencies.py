"""When a job may start at the earliest, given the jobs it depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from oarpy.scheduler.snapshot import Dependency, HoldingJob, WaitingJob


@dataclass(frozen=True, slots=True)
class Readiness:
    """``refusal`` says why the job cannot be placed at all; ``waits_for`` are anteriors not yet looked at."""

    ready: float
    refusal: str = ""
    waits_for: frozenset[int] = frozenset()


class Dependencies:
    """Answers from the jobs that hold, the placements made so far, and the outcomes of those that have ended.

    An anterior that waits is not looked at before it has been placed or set aside, whatever its rank: its dependant is
    then placed right after it.
    """

    def __init__(
        self,
        now: float,
        holding: tuple[HoldingJob, ...],
        waiting: tuple[WaitingJob, ...],
        outcomes: Mapping[int, Literal["ok", "notok"]],
    ) -> None:
        self._now = now
        self._held_until = {job.id: job.end for job in holding}
        self._waiting = frozenset(job.id for job in waiting)
        self._outcomes = outcomes
        self._ends: dict[int, float | None] = {}

    def settle(self, job: int, end: float | None) -> None:
        """Note the predicted end of a waiting job, None when it has no place."""
        self._ends[job] = end

    def readiness(self, job: WaitingJob) -> Readiness:
        """Return when ``job`` may start, security time of its anteriors not added."""
        ready = self._now
        waits_for = set()
        for dependency in job.depends_on:
            anterior = dependency.job
            if anterior in self._held_until:
                ready = max(ready, self._held_until[anterior])
            elif anterior in self._ends:
                end = self._ends[anterior]
                if end is None:
                    return Readiness(ready, f"job {anterior}, which it depends on, has no predicted end")
                ready = max(ready, end)
            elif anterior in self._waiting:
                waits_for.add(anterior)
            elif refusal := self._ended(dependency):
                return Readiness(ready, refusal)
        return Readiness(ready, waits_for=frozenset(waits_for))

    def _ended(self, dependency: Dependency) -> str:
        outcome = self._outcomes.get(dependency.job, "ok")
        if dependency.outcome in ("any", outcome):
            return ""
        ended = "well" if outcome == "ok" else "in error"
        return f"job {dependency.job} ended {ended}, which can no longer meet '{dependency.outcome}:{dependency.job}'"
