"""Checks of the dates that a submission asks for by its job types."""

from __future__ import annotations

from datetime import datetime
from math import inf

from oarpy.admission.submission import Submission
from oarpy.model.errors import UsageError
from oarpy.model.job_dates import NO_DATES
from oarpy.model.job_types import TYPES, read_types

_FARTHEST = 3660 * 86400


def check_dates(submission: Submission) -> None:
    """Raise :class:`UsageError` for a date that is none, or for dates that no start can meet."""
    types = read_types(submission.types)
    dates = types.dates()
    if dates is NO_DATES:
        return
    if submission.reservation is not None:
        raise UsageError(f"job type '{types.dated[0][:80]}' with a reservation", hint="-r gives the start and the end")
    now = datetime.now().timestamp()
    for kind in TYPES.values():
        if kind.date and now + _FARTHEST < getattr(dates, kind.date) < inf:
            raise UsageError(f"the date of job type {kind.name} is too far away", hint="at most 10 years")
    if dates.start_by < now:
        raise UsageError("the date of job type expire is past", hint="give a later one")
    if dates.not_before > dates.start_by:
        raise UsageError("the job expires before the date it is postponed to", hint="give a later expire")
    shortest = min((request.walltime or 0 for request in submission.alternatives), default=0)
    if max(now, dates.not_before) + shortest > dates.end_by:
        raise UsageError(
            "started at its earliest the job would end after its deadline", hint="give a later deadline or a shorter -l"
        )
