"""Jobs with dates of their own: dates that they can no longer meet, the texts about them, and the next such date."""

from __future__ import annotations

from math import inf

from oarpy.model.dates import NO_DATES
from oarpy.model.reasons import Reason, Why
from oarpy.model.setting_values import FORESEEING
from oarpy.scheduler.rules.dependencies import earliest_start
from oarpy.scheduler.snapshot import Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Lapse


def lapse_of(job: WaitingJob, now: float) -> Lapse | None:
    """Return the date that ``job`` can no longer meet if it starts at ``now`` or later; None if it may still start."""
    if job.dates is NO_DATES or job.reservation is not None:
        return None
    if job.dates.start_by < now:
        return Lapse.EXPIRED
    return Lapse.DEADLINE_MISSED if job.dates.end_by - _shortest(job) < now else None


def lapse_reason(job: WaitingJob, lapse: Lapse) -> Reason:
    """Return the reason text for the date that ``job`` can no longer meet."""
    if lapse is Lapse.EXPIRED:
        return Reason(Why.EXPIRED, start_by=job.dates.start_by)
    return Reason(Why.DEADLINE_MISSED, end_by=job.dates.end_by)


def lapses_at(job: WaitingJob) -> float:
    """Return the last instant at which ``job`` may start; infinity when its own dates do not bound it."""
    if job.dates is NO_DATES or job.reservation is not None:
        return inf
    return min(job.dates.start_by, job.dates.end_by - _shortest(job))


def next_lapse(snapshot: Snapshot) -> float | None:
    """Return the next instant at which a waiting job lapses, None when none will."""
    dates = (lapses_at(job) for job in snapshot.waiting if job.dates is not NO_DATES and not job.held)
    first = min((date for date in dates if date >= snapshot.now), default=inf)
    return None if first == inf else first + 1


def next_start_asked(snapshot: Snapshot) -> float | None:
    """Return the next instant before which the dates of a waiting job forbid its start; None without.

    Under a policy that foresees all starts such a job has a prediction instead.
    """
    if snapshot.policy in FORESEEING:
        return None
    spans = {**snapshot.spans, **{job.id: (job.start, job.end) for job in snapshot.holding}}
    starts = (earliest_start(job, spans) for job in snapshot.waiting if not job.held)
    return min((instant for instant in starts if instant > snapshot.now), default=None)


def _shortest(job: WaitingJob) -> float:
    """Return the shortest walltime (seconds) of any alternative."""
    return min((way.walltime for way in job.alternatives), default=0)
