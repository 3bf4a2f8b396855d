"""Waiting jobs that can no longer meet their dates or the window of a dependency: they end in error."""

from __future__ import annotations

from math import inf

from oarpy.modules.snapshot_reader import Reading
from oarpy.scheduler.dates import lapses_at
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
    dates = (lapses_at(job) for job in reading.snapshot.waiting if not job.held)
    first = min((date for date in dates if date >= now), default=inf)
    return None if first == inf else first + 1
