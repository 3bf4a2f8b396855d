"""Dates that a job asks for by its types: ``postpone=DATE``, ``deadline=DATE``, ``expire=DATE``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from math import inf

from oarpy.model.errors import UsageError

DATED_TYPES = ("postpone", "deadline", "expire")

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


def read_dates(types: Iterable[str]) -> JobDates:
    """Return the dates that the words of ``oarsub -t`` ask for, in epoch seconds.

    Raises :class:`UsageError` for a date that is none or given twice.
    """
    found: dict[str, float] = {}
    for word in types:
        name, _, text = word.partition("=")
        if name not in DATED_TYPES:
            continue
        if name in found:
            raise UsageError(f"job type {name} is given twice", hint="leave one out")
        found[name] = _instant(name, word, text)
    if not found:
        return NO_DATES
    return JobDates(found.get("postpone", -inf), found.get("expire", inf), found.get("deadline", inf))


def with_offsets(types: Iterable[str]) -> tuple[str, ...]:
    """Return the types with their dates written so that they mean the same in every time zone.

    What is not a date is left as it is.
    """
    return tuple(_with_offset(word) for word in types)


def _with_offset(word: str) -> str:
    name, _, text = word.partition("=")
    if name not in DATED_TYPES:
        return word
    try:
        return f"{name}={read_instant(text).isoformat(' ')}"
    except (ValueError, OverflowError, OSError):
        return word


def _instant(name: str, word: str, text: str) -> float:
    try:
        return int(read_instant(text).timestamp())
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"job type '{word[:80]}' needs a date", hint=f"write -t '{name}=YYYY-MM-DD hh:mm:ss'"
        ) from None
