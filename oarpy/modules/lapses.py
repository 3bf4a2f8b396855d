"""Dates that waiting jobs asked for: when the next one comes, and jobs that end in error as theirs cannot be met."""

from __future__ import annotations

from math import inf

from oarpy.model.job_dates import NO_DATES
from oarpy.modules.snapshot_reader import Reading
from oarpy.scheduler.dates import lapses_at
from oarpy.scheduler.dependencies import earliest_start
from oarpy.scheduler.plan import Plan
from oarpy.scheduler.verdicts import Lapse


def lapsed(reading: Reading, plan: Plan) -> dict[Lapse, list[tuple[int, str]]]:
    """Return the jobs to end, with their reasons, by what they missed. A held job is told when it is resumed."""
    found: dict[Lapse, list[tuple[int, str]]] = {}
    for placement in plan.placements:
        if placement.lapse is not None and not reading.waiting[placement.job].held:
            found.setdefault(placement.lapse, []).append((placement.job, placement.reason))
    return found


def next_lapse(reading: Reading, now: int) -> float | None:
    """Return the next instant (epoch seconds) at which a waiting job lapses, None when none will."""
    dates = (lapses_at(job) for job in reading.snapshot.waiting if job.dates is not NO_DATES and not job.held)
    first = min((date for date in dates if date >= now), default=inf)
    return None if first == inf else first + 1


def next_start_asked(reading: Reading, now: int) -> float | None:
    """Return the next instant at which a waiting job may start that EASY foresees nothing for before; None without.

    Under the other policies such a job has a predicted start.
    """
    snapshot = reading.snapshot
    if snapshot.policy != "easy":
        return None
    spans = {**snapshot.spans, **{job.id: (job.start, job.end) for job in snapshot.holding}}
    asked = (earliest_start(job, spans) for job in snapshot.waiting if not job.held)
    return min((instant for instant in asked if instant > now), default=None)
