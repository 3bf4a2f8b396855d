"""When a recurring job is submitted: the grammar of ``--every``, and the due times that follow from a rule.

A rule is days with a time of day, or an interval::

    rule     = days time | interval
    days     = item {"," item}
    item     = "day" | weekday ["-" weekday] | "1st" | "2nd" | ... | "31st"
    weekday  = "mon" | "monday" | ...
    time     = hours ":" minutes
    interval = a duration with units, from 1m to 366d: 90s, 2h, 1d12h

A range of weekdays may go over the end of the week (``sat-mon``). A month that lacks a day is left out. Times are those
of clocks in the server's time zone. A time that clocks skip is later by what they skip, a time that they show twice is
the first of both: so are other dates of oarpy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Protocol

from oarpy.model.durations import parse_duration
from oarpy.model.errors import UsageError

SHORTEST = 60
"""Seconds of the shortest interval."""
LONGEST = 366 * 86400
"""Seconds of the longest interval."""

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})", re.ASCII)
_INTERVAL = re.compile(r"(\d+(d|h|min|m|s))+", re.ASCII)
_DAY_OF_MONTH = re.compile(r"(\d{1,2})(st|nd|rd|th)", re.ASCII)
_LONGEST_GAP = 63
"""More days than lie between two months that have a 31st."""


class Rule(Protocol):
    """When a series has due times."""

    def after(self, due: datetime, now: datetime, zone: tzinfo | None = None) -> datetime:
        """Return the first due time that is later than ``now``, in UTC.

        ``due`` is a due time before, at first the begin of the series. Without a ``zone`` the local one is meant.
        """


@dataclass(frozen=True, slots=True)
class Interval:
    """Due times that are ``seconds`` apart, from the begin of the series on."""

    seconds: int

    def after(self, due: datetime, now: datetime, zone: tzinfo | None = None) -> datetime:
        """Return it; clocks that change do not count."""
        step = timedelta(seconds=self.seconds)
        return due.astimezone(UTC) + max((now - due) // step + 1, 1) * step


@dataclass(frozen=True, slots=True)
class OnDays:
    """Due times at a time of day: on ``weekdays`` (0: Monday), and on days of the month."""

    weekdays: frozenset[int]
    days_of_month: frozenset[int]
    at: time

    def after(self, due: datetime, now: datetime, zone: tzinfo | None = None) -> datetime:
        """Return it."""
        return next(instant for instant in self._instants(now.astimezone(zone).date(), zone) if instant > now)

    def _instants(self, day: date, zone: tzinfo | None) -> Iterator[datetime]:
        # clocks that skip midnight put off what was due the day before
        for shift in range(-1, _LONGEST_GAP + 1):
            other = day + timedelta(days=shift)
            if other.weekday() in self.weekdays or other.day in self.days_of_month:
                local = datetime.combine(other, self.at)
                yield (local.astimezone() if zone is None else local.replace(tzinfo=zone)).astimezone(UTC)


def read_rule(text: str) -> Rule:
    """Read a rule; raise :class:`UsageError` when it is none.

    >>> read_rule("2h"), read_rule("mon-wed 8:00").weekdays
    (Interval(seconds=7200), frozenset({0, 1, 2}))
    """
    words = text.lower().split()
    if len(words) == 1 and _INTERVAL.fullmatch(words[0]):
        return _interval(words[0])
    if len(words) != 2:
        raise _unreadable(text)
    days, clock = words
    match = _CLOCK.fullmatch(clock)
    if match is None or int(match[1]) > 23 or int(match[2]) > 59:
        raise UsageError(f"--every '{text[:80]}': '{clock[:80]}' is no time of day", hint="for example mon 8:00")
    weekdays: set[int] = set()
    days_of_month: set[int] = set()
    for item in days.split(","):
        if ordinal := _DAY_OF_MONTH.fullmatch(item):
            days_of_month.add(_day_of_month(int(ordinal[1]), text))
        else:
            weekdays.update(_days_of_week(item, text))
    return OnDays(frozenset(weekdays), frozenset(days_of_month), time(int(match[1]), int(match[2])))


def one_form(text: str) -> str:
    """Return the text of a rule in small letters, with one blank between its words."""
    return " ".join(text.lower().split())


def _interval(text: str) -> Interval:
    try:
        seconds = parse_duration(text)
    except UsageError as error:
        raise UsageError(f"--every: {error.message}", hint="for example 2h, 90m or 1d12h") from None
    if not SHORTEST <= seconds <= LONGEST:
        raise UsageError(f"--every '{text[:80]}' is out of range", hint="from 1m to 366d")
    return Interval(seconds)


def _days_of_week(item: str, text: str) -> Iterator[int]:
    if item == "day":
        yield from range(7)
        return
    first, dash, last = item.partition("-")
    begin = _weekday(first, text)
    days = (_weekday(last, text) - begin) % 7 if dash else 0
    yield from ((begin + day) % 7 for day in range(days + 1))


def _weekday(word: str, text: str) -> int:
    for number, name in enumerate(_WEEKDAYS):
        if word in (name, name[:3]):
            return number
    raise UsageError(
        f"--every '{text[:80]}': '{word[:80]}' is no day",
        hint="day, mon, mon-fri, mon,thu or 1st, then a time: mon 8:00",
    )


def _day_of_month(number: int, text: str) -> int:
    if not 1 <= number <= 31:
        raise UsageError(f"--every '{text[:80]}': months have no day {number}", hint="1st to 31st")
    return number


def _unreadable(text: str) -> UsageError:
    return UsageError(
        f"--every '{text[:80]}' is not understood",
        hint="day 8:00, mon 8:00, mon-fri 8:00, 1st 6:30, or an interval: 2h",
    )
