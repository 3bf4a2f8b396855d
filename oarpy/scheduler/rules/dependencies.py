"""When a job may start at the earliest and at the latest, given the jobs it depends on.

Job 2 was submitted with ``-a 1,[+10,]+5``: 10 s after 1 starts or later, at most 5 s after 1 ends::

    job 1     |------------------------|
    job 2               |<-- ready      latest -->|
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal

from oarpy.model.dependency import Dependency, Shift
from oarpy.model.reasons import Reason, Why
from oarpy.scheduler.snapshot import HoldingJob, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Lapse

Span = tuple[float, float]
"""Begin and end of a job, as far as they are known or predicted."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """A job may start during [``ready``, ``latest``].

    ``refusal`` says why the job cannot be placed at all, and ``lapse`` that this cannot change any more; ``waits_for``
    are anteriors not yet looked at.
    """

    ready: float
    refusal: Reason | None = None
    waits_for: frozenset[int] = frozenset()
    latest: float = inf
    lapse: Lapse | None = None


class Dependencies:
    """The state of dependencies, from the jobs that hold, the placements so far, and the outcomes of ended jobs.

    A waiting anterior counts only once it was placed or set aside, whatever its rank. Its dependant is then placed
    right after it.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._now = snapshot.now
        self._holding: Mapping[int, HoldingJob] = {job.id: job for job in snapshot.holding}
        self._waiting = frozenset(job.id for job in snapshot.waiting)
        self._held = frozenset(job.id for job in snapshot.waiting if job.held)
        self._outcomes: Mapping[int, Literal["ok", "notok"]] = snapshot.outcomes
        self._over = snapshot.spans
        self._some_left_out = snapshot.heads
        self._placed: dict[int, Span | None] = {}
        self._ready_now = Readiness(self._now)

    def later(self, snapshot: Snapshot) -> Dependencies:
        """Return the dependencies for a later ``snapshot``, in which the placements made so far still stand."""
        twin = Dependencies(snapshot)
        twin._placed = self._placed
        return twin

    def settle(self, job: int, span: Span | None) -> None:
        """Note when a waiting job is predicted to begin and end, None when it has no place."""
        self._placed[job] = span

    def readiness(self, job: WaitingJob) -> Readiness:
        """Return when ``job`` may start, security time of its anteriors not added."""
        if not job.depends_on:
            return self._ready_now
        ready, latest = self._now, inf
        waits_for = set()
        for dependency in job.depends_on:
            anterior = dependency.job
            span = self._span(anterior)
            if span is None and anterior in self._placed:
                kind = Why.ANTERIOR_HELD if anterior in self._held else Why.ANTERIOR_ENDLESS
                return Readiness(ready, Reason(kind, jobs=(anterior,)))
            if span is None and (anterior in self._waiting or self._is_left_out(anterior)):
                waits_for.add(anterior)
            elif not self._lives(anterior) and (refusal := self._ended(dependency)):
                return Readiness(ready, refusal)
            elif span is not None:
                ready = max(ready, self._earliest(dependency, span))
                if dependency.latest is not None:
                    latest = min(latest, _instant(dependency.latest, span))
                    if latest < self._now and self._is_settled(dependency, dependency.latest):
                        return Readiness(ready, _missed(dependency), lapse=Lapse.WINDOW_MISSED)
        return Readiness(ready, waits_for=frozenset(waits_for), latest=latest)

    def waits(self, job: WaitingJob) -> bool:
        """Tell whether ``job`` depends on a job that is not over."""
        return any(self._lives(dependency.job) or self._is_left_out(dependency.job) for dependency in job.depends_on)

    def _is_left_out(self, job: int) -> bool:
        """Tell whether a job waits that the snapshot does not have: it would have an outcome if it was over."""
        return self._some_left_out and not self._lives(job) and job not in self._outcomes

    def _span(self, job: int) -> Span | None:
        """Return when a job begins and ends, None when that is not known."""
        if job in self._holding:
            return self._holding[job].start, self._holding[job].end
        return self._placed.get(job) or self._over.get(job)

    def _lives(self, job: int) -> bool:
        return job in self._holding or job in self._waiting

    def _earliest(self, dependency: Dependency, span: Span) -> float:
        """Return the earliest start; a required outcome is not known before the end."""
        if dependency.earliest is None:
            return span[1] if self._lives(dependency.job) else self._now
        earliest = _instant(dependency.earliest, span)
        return earliest if dependency.outcome == "any" else max(earliest, span[1])

    def _is_settled(self, dependency: Dependency, shift: Shift) -> bool:
        """Tell whether the instant that ``shift`` names can no longer move."""
        holding = self._holding.get(dependency.job)
        if holding is not None:
            return shift.edge == "start" and holding.start <= self._now
        return dependency.job not in self._waiting

    def _ended(self, dependency: Dependency) -> Reason | None:
        """Return a reason if an anterior ended without the required outcome, else None."""
        if dependency.outcome in ("any", self._outcomes.get(dependency.job, "ok")):
            return None
        return Reason(Why.ANTERIOR_ENDED, dependency.outcome, (dependency.job,))


def earliest_start(job: WaitingJob, spans: Mapping[int, Span]) -> float:
    """Return the earliest start that ``job`` asks for by its own dates, and by shifts after jobs of known ``spans``."""
    shifts = ((dependency.earliest, spans.get(dependency.job)) for dependency in job.depends_on)
    return max([job.dates.not_before, *(_instant(shift, span) for shift, span in shifts if shift and span)])


def _instant(shift: Shift, span: Span) -> float:
    """Return the instant that a shift names (seconds on the snapshot's axis)."""
    return span[0 if shift.edge == "start" else 1] + shift.seconds


def _missed(dependency: Dependency) -> Reason:
    return Reason(Why.WINDOW_MISSED, str(dependency), (dependency.job,))
