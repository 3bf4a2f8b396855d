"""Dates that a job asks for by its types, and how dates are written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from math import inf

_DATE = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d{1,2})(?::(\d{1,2}))?(?::(\d{1,2}))?)?\s*(Z|[+-]\d\d:?\d\d)?",
    re.ASCII,
)
_EPOCH = re.compile(r"\d{9,11}", re.ASCII)


@dataclass(frozen=True, slots=True)
class JobDates:
    """Bounds on when a job runs: it starts at ``not_before`` or later, by ``start_by``, and has ended by ``end_by``.

    Instants on the axis of the job's other instants; the walltime counts as its end, security time does not.
    """

    not_before: float = -inf
    start_by: float = inf
    end_by: float = inf


NO_DATES = JobDates()


def read_instant(text: str) -> datetime:
    """Read ``YYYY-MM-DD [hh[:mm[:ss]]] [+hh:mm]`` or epoch seconds; without an offset the local time zone is meant.

    Raises ValueError when it is no date.

    >>> read_instant("2026-02-01 12:30+01:00").timestamp(), read_instant("1769945400").timestamp()
    (1769945400.0, 1769945400.0)
    """
    text = text.strip()
    if _EPOCH.fullmatch(text):
        return datetime.fromtimestamp(int(text)).astimezone()
    found = _DATE.fullmatch(text)
    if found is None:
        raise ValueError(f"'{text[:80]}' is not a date, write YYYY-MM-DD hh:mm:ss")
    day, *clock, offset = found.groups()
    hour, minute, second = (int(part or 0) for part in clock)
    date = datetime.fromisoformat(f"{day} {hour:02}:{minute:02}:{second:02}{offset or ''}")
    return date if offset else date.astimezone()
