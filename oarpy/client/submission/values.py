"""Checks of a submission that take the clock or the file system, and the period of a reservation."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from math import inf

from oarpy.client.caller import current
from oarpy.model.dates import FARTHEST, NO_DATES, read_date, read_end
from oarpy.model.errors import UsageError
from oarpy.model.job_types import TYPES, read_types
from oarpy.model.submission import Submission
from oarpy.model.submission_checks import LONGEST_PATH, check_text, short

_LATE = timedelta(seconds=60)
"""A start that was "now" when a program wrote it may be that late here."""


def check_values(submission: Submission) -> None:
    """Raise :class:`UsageError` for the first value of ``submission`` that cannot be stored or carried out."""
    submission.check()
    check_dates(submission)
    check_window(submission)
    check_directory(submission.directory)


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
        if kind.date and now + FARTHEST.total_seconds() < getattr(dates, kind.date) < inf:
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


def check_window(submission: Submission) -> None:
    """Raise :class:`UsageError` for a window that no start can meet, and for options of a window without one."""
    start, until = submission.reservation, submission.until
    for option, given in (
        ("--slack", submission.slack),
        ("--farthest", submission.farthest is not None),
        ("--until", until is not None and not submission.bag),
    ):
        if given and start is None:
            raise UsageError(f"{option} without a reservation", hint="-r START gives its date")
    if until is not None and submission.slack:
        raise UsageError("both --until and --slack", hint="one says where the window ends")
    if submission.fix and until is None and not submission.slack:
        raise UsageError("--fix without a window", hint="--until END or --slack makes one")
    if start is None:
        return
    window = submission.window if submission.slack else None
    if window is not None and window.deadline > datetime.now().astimezone() + FARTHEST:
        raise UsageError(f"--slack '{short(submission.slack)}' is too much", hint="the window ends within 10 years")
    if until is None:
        return
    shortest = min((request.walltime or 0 for request in submission.alternatives), default=0)
    if until < start + timedelta(seconds=max(shortest, 1)):
        raise UsageError(
            f"the window ends at {until.astimezone():%Y-%m-%d %H:%M:%S}, before the start and the walltime",
            hint="give a later --until or a shorter -l",
        )


def check_directory(path: str) -> None:
    """Raise :class:`UsageError` unless ``path`` is an absolute path of a directory that exists here."""
    check_text("-d", path, LONGEST_PATH)
    if not path.isprintable():
        raise UsageError("working directory with unprintable characters", hint="rename it")
    if not os.path.isabs(path):
        raise UsageError(f"working directory '{short(path)}' is not absolute", hint="begin it with /")
    if not current().has_directory(path):
        raise UsageError(
            f"working directory '{short(path)}' does not exist or is no directory", hint="name or create a directory"
        )


def read_reservation(text: str, now: datetime) -> tuple[datetime, int | None]:
    """Return the start of ``START[, END]`` and the seconds until its end, if that is given.

    ``now`` stands for ``now``, the begin of durations and a missing day. An end may be a duration after the start, or a
    time of day. A time of day before the start means the next day.
    """
    first, comma, last = text.partition(",")
    start = read_date(first, now)
    if start < now - _LATE:
        raise UsageError(f"reservation start '{short(first.strip())}' is in the past", hint="or use -r now")
    start = max(start, now)
    if start > now + FARTHEST:
        raise UsageError(f"reservation start '{short(first.strip())}' is too far away", hint="at most 10 years")
    if not comma:
        return start, None
    end = read_end(last, now, start)
    if end <= start:
        raise UsageError(f"reservation end '{short(last.strip())}' is not after its start", hint="START, END")
    return start, max(1, int((end - start).total_seconds()))


def read_until(text: str, now: datetime, start: datetime) -> datetime:
    """Return the end of the window of a reservation; a duration counts from its start."""
    end = read_end(text, now, start)
    if end > now + FARTHEST:
        raise UsageError(f"--until '{short(text.strip())}' is too far away", hint="at most 10 years")
    return end
