"""Dates as users write them, alike in every option; and the dates that bound a job.

A date is ``YYYY-MM-DD [hh[:mm[:ss]]]``, with ``T`` for the blank too, perhaps with ``Z`` or an offset. It may also be:

- epoch seconds (9 to 11 digits);
- ``now``, or a duration from now: ``+1h``, ``-0:30:0``, ``now + 2d``;
- ``yesterday``, ``today``, ``tomorrow`` or the next ``monday`` (``mon``), with a time of day or as midnight;
- a time of day alone (``18:30``).

Without an offset the local time zone is meant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf

from oarpy.model.durations import parse_duration
from oarpy.model.errors import UsageError

FORMS = "YYYY-MM-DD hh:mm:ss [+hh:mm], epoch seconds, now, +1h, or tomorrow 8:00"
"""The forms of a date, for errors."""

FARTHEST = timedelta(days=3660)
"""The time from now until the latest date that is accepted: ten years."""

_CLOCK_TEXT = r"(\d{1,2})(?::(\d{1,2}))?(?::(\d{1,2})(?:\.\d{1,9})?)?"
_DATE = re.compile(rf"(\d{{4}}-\d{{1,2}}-\d{{1,2}})(?:(?:T|\s+){_CLOCK_TEXT})?\s*(Z|[+-]\d\d(?::?\d\d)?)?", re.ASCII)
_DAY = re.compile(rf"([a-z]+)(?:\s+{_CLOCK_TEXT})?", re.ASCII)
_CLOCK = re.compile(r"(\d{1,2})(?::(\d{1,2}))?(?::(\d{1,2}))?", re.ASCII)
_EPOCH = re.compile(r"\d{9,11}", re.ASCII)
_SHIFT = re.compile(r"(?:now\s*)?([+-])\s*(\S+)", re.ASCII)
_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


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
    """Read a date that means the same whenever it is read: with its day, or epoch seconds.

    Raises ValueError when it is none.

    >>> read_instant("2026-02-01 12:30+01:00").timestamp(), read_instant("1769945400").timestamp()
    (1769945400.0, 1769945400.0)
    >>> read_instant("2026-02-01T12:30:00.25+01:00").timestamp()
    1769945400.25
    """
    text = text.strip()
    try:
        if _EPOCH.fullmatch(text):
            return datetime.fromtimestamp(int(text)).astimezone()
        if match := _DATE.fullmatch(text):
            day, *clock, offset = match.groups()
            year, month, day_of_month = map(int, day.split("-"))
            date = datetime(year, month, day_of_month, *_numbers(clock), _microseconds(text))
            return _with_offset(date, offset) if offset else date.astimezone()
    except (OverflowError, OSError, ValueError):
        pass
    raise ValueError(f"'{text[:80]}' is not a date, write YYYY-MM-DD hh:mm:ss")


def read_date(text: str, now: datetime, base: datetime | None = None) -> datetime:
    """Read a date in any of its forms.

    A duration and a time of day count from ``base`` (None: ``now``), all else from ``now``. Both have a time zone.
    Raises :class:`UsageError` when it is no date.

    >>> now = datetime.fromisoformat("2026-02-01 12:30+00:00")
    >>> str(read_date("+1h", now)), str(read_date("2026-02-01T13:30Z", now))
    ('2026-02-01 13:30:00+00:00', '2026-02-01 13:30:00+00:00')
    """
    word = text.strip().lower()
    if word == "now":
        return now
    try:
        if match := _SHIFT.fullmatch(word):
            return (base or now) + _duration(match[2]) * (1 if match[1] == "+" else -1)
        if _CLOCK.fullmatch(word):
            return _at(base or now, 0, _CLOCK.fullmatch(word).groups())  # type: ignore[union-attr]
        if (match := _DAY.fullmatch(word)) and (days := _days_until(match[1], now)) is not None:
            return _at(now, days, match.groups()[1:])
        return read_instant(text)
    except (OverflowError, OSError, ValueError):
        raise UsageError(f"'{text.strip()[:80]}' is not a date", hint=f"write {FORMS}") from None


def read_span(text: str, now: datetime) -> tuple[datetime, datetime]:
    """Read the period that a date means: a whole day without a time, else the span between it and now.

    Raises :class:`UsageError` if the text is no date.
    """
    date = read_date(text, now)
    word = text.strip().lower()
    match = _DATE.fullmatch(text.strip()) or (None if word == "now" else _DAY.fullmatch(word))
    if match and match[2] is None:
        return date, (date.astimezone().replace(tzinfo=None) + timedelta(days=1)).astimezone()
    return min(date, now), max(date, now)


def read_end(text: str, now: datetime, begin: datetime) -> datetime:
    """Read the end of a period that begins at ``begin``: a duration counts from there, a time of day comes after it.

    Raises :class:`UsageError` when it is no date.
    """
    end = read_date(text, now, begin)
    return end + timedelta(days=1) if end <= begin and _CLOCK.fullmatch(text.strip()) else end


def _microseconds(text: str) -> int:
    """Return the part of a second that a date has after its dot."""
    match = re.search(r"\.(\d{1,9})", text, re.ASCII)
    return int(match[1][:6].ljust(6, "0")) if match else 0


def _numbers(clock: list[str | None] | tuple[str | None, ...]) -> tuple[int, int, int]:
    hour, minute, second = (int(part or 0) for part in clock)
    return hour, minute, second


def _with_offset(date: datetime, offset: str) -> datetime:
    """Return a date in the time zone of an offset: ``Z``, ``+01``, ``+0100`` or ``+01:00``."""
    return datetime.fromisoformat(f"{date:%Y-%m-%dT%H:%M:%S.%f}{offset}")


def _duration(text: str) -> timedelta:
    try:
        return timedelta(seconds=parse_duration(text))
    except UsageError as error:
        raise ValueError(error.message) from None


def _days_until(word: str, now: datetime) -> int | None:
    """Return how many days after today the day of a word is, None for no day. A weekday is one of the next seven."""
    if word in _DAYS:
        return _DAYS[word]
    for number, name in enumerate(_WEEKDAYS):
        if word in (name, name[:3]):
            return (number - now.astimezone().weekday() - 1) % 7 + 1
    return None


def _at(date: datetime, days: int, clock: tuple[str | None, ...]) -> datetime:
    """Return a time of day, ``days`` days after ``date``, in the local time zone."""
    hour, minute, second = _numbers(clock)
    local = date.astimezone().replace(tzinfo=None) + timedelta(days=days)
    return local.replace(hour=hour, minute=minute, second=second, microsecond=0).astimezone()
