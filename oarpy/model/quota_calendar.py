"""Which set of quota rules is valid when: a week that repeats, exceptions with dates, and a set for the rest.

Weekdays and times of the day are those of a time zone: a period from 08:00 to 19:00 is an hour shorter or longer on the
night the clocks change if it spans that hour. A time that the clocks skip is taken as if they had not moved yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import pairwise

DAY = 86400
WEEK = 7 * DAY
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

Span = tuple[float, float]
"""[begin, end) in epoch seconds."""


@dataclass(frozen=True, slots=True)
class WeeklyPeriod:
    """A part of one day of the week; ``weekday`` 0 is Monday, ``begin`` and ``end`` are seconds of the day (to 86400).

    ``rule_set`` is the name of the rules that are valid then, ``label`` what people call the period.
    """

    weekday: int
    begin: int
    end: int
    rule_set: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class DatedPeriod:
    """An exception: ``rule_set`` is valid during [begin, end), epoch seconds, whatever the week says."""

    begin: float
    end: float
    rule_set: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class QuotaCalendar:
    """When each set of rules is valid. Periods of a kind do not overlap.

    ``otherwise`` names the set for what no period covers; ``zone`` None is the time zone of this machine.
    """

    weekly: tuple[WeeklyPeriod, ...] = ()
    dated: tuple[DatedPeriod, ...] = ()
    otherwise: str | None = None
    zone: tzinfo | None = None


def valid_spans(calendar: QuotaCalendar, begin: float, end: float) -> dict[str, tuple[Span, ...]]:
    """Return when each set of rules is valid within [begin, end), ascending; spans that touch are one.

    >>> from datetime import UTC
    >>> night = QuotaCalendar((WeeklyPeriod(3, 0, 21600, "night"),), (), "day", UTC)  # 1970 began on a Thursday
    >>> valid_spans(night, 0, 86400)
    {'night': ((0, 21600.0),), 'day': ((21600.0, 86400),)}
    """
    dated = _inside(((one.begin, one.end, one.rule_set) for one in calendar.dated), begin, end)
    weekly = _inside(_unrolled(calendar, begin, end), begin, end)
    parts = dated + [part for free in _gaps(dated, begin, end) for part in _inside(weekly, *free)]
    if calendar.otherwise is not None:
        parts += [(*free, calendar.otherwise) for free in _gaps(sorted(parts), begin, end)]
    found: dict[str, list[Span]] = {}
    for left, right, name in sorted(parts):
        spans = found.setdefault(name, [])
        if spans and spans[-1][1] == left:
            left = spans.pop()[0]
        spans.append((left, right))
    return {name: tuple(spans) for name, spans in found.items()}


def uncovered(weekly: Iterable[WeeklyPeriod]) -> tuple[int, int] | None:
    """Return the first part of the week that no period covers, in seconds since Monday 00:00; None when all is."""
    spans = sorted((one.weekday * DAY + one.begin, one.weekday * DAY + one.end) for one in weekly)
    until = 0
    for left, right in (*spans, (WEEK, WEEK)):
        if left > until:
            return until, left
        until = max(until, right)
    return None


def overlap(periods: Iterable[WeeklyPeriod]) -> tuple[WeeklyPeriod, WeeklyPeriod] | None:
    """Return two periods of the week that overlap, None when none do."""
    ordered = sorted(periods, key=lambda one: (one.weekday, one.begin))
    return next(
        ((one, two) for one, two in pairwise(ordered) if one.weekday == two.weekday and two.begin < one.end), None
    )


def clash(periods: Iterable[DatedPeriod]) -> tuple[DatedPeriod, DatedPeriod] | None:
    """Return two exceptions that overlap, None when none do."""
    ordered = sorted(periods, key=lambda one: one.begin)
    return next(((one, two) for one, two in pairwise(ordered) if two.begin < one.end), None)


_Part = tuple[float, float, str]


def _unrolled(calendar: QuotaCalendar, begin: float, end: float) -> list[_Part]:
    """Return the periods of the week on every day that touches [begin, end)."""
    if not calendar.weekly:
        return []
    zone, found, until = calendar.zone, list[_Part](), begin - DAY * 2
    periods = sorted(calendar.weekly, key=lambda one: (one.weekday, one.begin))
    day = datetime.fromtimestamp(begin, zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    day -= timedelta(days=1)
    while _instant(day, 0, zone) < end:
        for one in periods:
            if one.weekday == day.weekday():
                left = max(until, _instant(day, one.begin, zone))  # one that begins in a skipped hour is not in two
                until = max(left, _instant(day, one.end, zone))
                found.append((left, until, one.rule_set))
        day += timedelta(days=1)
    return found


def _instant(day: datetime, seconds: int, zone: tzinfo | None) -> float:
    return (day + timedelta(seconds=seconds)).replace(tzinfo=zone).timestamp()


def _inside(parts: Iterable[_Part], begin: float, end: float) -> list[_Part]:
    """Return what lies within [begin, end), ascending, without what is empty."""
    cut = ((max(left, begin), min(right, end), name) for left, right, name in parts)
    return sorted(part for part in cut if part[0] < part[1])


def _gaps(parts: Sequence[_Part], begin: float, end: float) -> list[Span]:
    """Return what ascending ``parts`` leave of [begin, end)."""
    found, until = [], begin
    for left, right, _ in parts:
        if left > until:
            found.append((until, left))
        until = max(until, right)
    return [*found, (until, end)] if until < end else found
