"""The set of quota rules valid at each time: a week that repeats, exceptions with dates, and a set for the rest.

Weekdays and times of the day belong to a time zone. A period from 08:00 to 19:00 is an hour shorter or longer on the
night the clocks change, if it spans that hour. A time that the clocks skip is taken as if they had not moved yet. An
exception goes before the week, and ``otherwise`` takes what is left::

    week          |- night -|-------- day --------|- night -|
    exceptions              |-- holiday --|
    valid         |- night -|-- holiday --|- day -|- night -|
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import groupby, pairwise

from oarpy.model.errors import UsageError

DEFAULT_LEVEL = "default"
"""The level of quota rules that name none."""

OTHERWISE = "* * * *"
"""The period that is whatever the others leave."""

_TIME = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?", re.ASCII)
_FORM = "write times, weekdays and two stars, such as 08:00-19:00 mon-fri * *"


def parse_period(text: str, rule_set: str, label: str = "") -> tuple[WeeklyPeriod, ...]:
    """Return a period for each day; a period that ends at or before its beginning lasts into the next day.

    Raises :class:`UsageError`; months and days of the month must be ``*``.

    >>> parse_period("19:00-08:00 sun * *", "night")  # doctest: +NORMALIZE_WHITESPACE
    (WeeklyPeriod(weekday=6, begin=68400, end=86400, rule_set='night', label=''),
     WeeklyPeriod(weekday=0, begin=0, end=28800, rule_set='night', label=''))
    """
    words = text.lower().split()
    if len(words) != 4:
        raise UsageError(f"'{text[:60]}' is no period of the week", hint=_FORM)
    if words[2:] != ["*", "*"]:
        raise UsageError(f"period '{text[:60]}': days of the month and months must be *", hint=_FORM)
    begin, end = (0, DAY) if words[0] == "*" else _times(words[0], text)
    periods = []
    for weekday in _weekdays(words[1], text):
        if begin < end:
            periods.append(WeeklyPeriod(weekday, begin, end, rule_set, label))
            continue
        periods.append(WeeklyPeriod(weekday, begin, DAY, rule_set, label))
        if end:
            periods.append(WeeklyPeriod((weekday + 1) % 7, 0, end, rule_set, label))
    return tuple(periods)


def period_texts(weekly: Sequence[WeeklyPeriod]) -> list[tuple[str, str, str]]:
    """Return text, rule set and label of periods; periods that differ only in their days become one.

    >>> period_texts(parse_period("19:00-24:00 fri-mon * *", "night"))
    [('19:00-00:00 fri-sun,mon * *', 'night', '')]
    """

    def alike(period: WeeklyPeriod) -> tuple[int, int, str, str]:
        return period.begin, period.end, period.rule_set, period.label

    texts = []
    for (begin, end, rule_set, label), same in groupby(sorted(weekly, key=alike), key=alike):
        days = [period.weekday for period in same]
        times = "*" if (begin, end) == (0, DAY) else f"{_clock(begin)}-{_clock(end)}"
        texts.append((min(days), begin, f"{times} {_days_text(days)} * *", rule_set, label))
    return [(text, rule_set, label) for _, _, text, rule_set, label in sorted(texts)]


def _times(word: str, text: str) -> tuple[int, int]:
    """Read ``08:00-19:00`` as seconds of the day. Raises :class:`UsageError`."""
    begin, end = (_time(part) for part in (*word.split("-"), "")[:2])
    if begin is None or end is None or begin == DAY or word.count("-") > 1:
        raise UsageError(f"period '{text[:60]}': '{word[:20]}' are no times", hint=_FORM)
    if begin == end:
        raise UsageError(f"period '{text[:60]}' is empty", hint="* is the whole day")
    return begin, end


def _time(word: str) -> int | None:
    """Read one time as seconds of the day, None when it is none."""
    match = _TIME.fullmatch(word)
    if match is None or int(match[2]) > 59 or int(match[3] or 0) > 59:
        return None
    seconds = int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3] or 0)
    return seconds if seconds <= DAY else None


def _weekdays(word: str, text: str) -> list[int]:
    """Read ``mon-fri,sun`` as numbers of days, 0 for Monday. Raises :class:`UsageError`."""
    if word == "*":
        return list(range(7))
    days: list[int] = []
    for part in word.split(","):
        first, dash, last = part.partition("-")
        if first not in WEEKDAYS or (dash and last not in WEEKDAYS):
            raise UsageError(f"period '{text[:60]}': '{part[:20]}' is no weekday", hint=", ".join(WEEKDAYS))
        begin = WEEKDAYS.index(first)
        end = WEEKDAYS.index(last) if dash else begin
        days += [day % 7 for day in range(begin, end + 1 if begin <= end else end + 8)]
    return days


def _days_text(days: Sequence[int]) -> str:
    """Write days as :func:`_weekdays` reads them, consecutive days as a range."""
    if len(days) == 7:
        return "*"
    runs: list[list[int]] = []
    for day in days:
        if runs and runs[-1][-1] == day - 1:
            runs[-1].append(day)
        else:
            runs.append([day])
    names = [(WEEKDAYS[run[0]], WEEKDAYS[run[-1]]) for run in runs]
    return ",".join(first if first == last else f"{first}-{last}" for first, last in names)


def _clock(seconds: int) -> str:
    """Write seconds of the day as a time; midnight at the end of a day is 00:00."""
    seconds %= DAY
    text = f"{seconds // 3600:02}:{seconds % 3600 // 60:02}"
    return f"{text}:{seconds % 60:02}" if seconds % 60 else text


DAY = 86400
WEEK = 7 * DAY
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

Span = tuple[float, float]
"""[begin, end) in epoch seconds."""


@dataclass(frozen=True, slots=True)
class WeeklyPeriod:
    """A part of one day of the week; ``weekday`` 0 is Monday, ``begin`` and ``end`` are seconds of the day (to 86400).

    ``rule_set`` is the name of the rules that are valid then, ``label`` the name of the period for users.
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
    """The times at which each set of rules is valid. Periods of a kind do not overlap.

    ``otherwise`` names the set for times outside all periods; ``zone`` None is the time zone of this machine.
    """

    weekly: tuple[WeeklyPeriod, ...] = ()
    dated: tuple[DatedPeriod, ...] = ()
    otherwise: str | None = None
    zone: tzinfo | None = None


def valid_spans(calendar: QuotaCalendar, begin: float, end: float) -> dict[str, tuple[Span, ...]]:
    """Return when each set of rules is valid within [begin, end) (epoch seconds), ascending; spans that touch are one.

    >>> from datetime import UTC
    >>> night = QuotaCalendar((WeeklyPeriod(3, 0, 21600, "night"),), (), "day", UTC)  # 1970 began on a Thursday
    >>> valid_spans(night, 0, 86400)
    {'night': ((0.0, 21600.0),), 'day': ((21600.0, 86400),)}
    """
    dated = _inside(((exception.begin, exception.end, exception.rule_set) for exception in calendar.dated), begin, end)
    weekly = _inside(_unrolled(calendar, begin, end), begin, end)
    parts = dated + [part for free in _gaps(dated, begin, end) for part in _inside(weekly, *free)]
    if calendar.otherwise is not None:
        parts += [(*free, calendar.otherwise) for free in _gaps(sorted(parts), begin, end)]
    by_rule_set: dict[str, list[Span]] = {}
    for left, right, name in sorted(parts):
        spans = by_rule_set.setdefault(name, [])
        if spans and spans[-1][1] == left:
            left = spans.pop()[0]
        spans.append((left, right))
    return {name: tuple(spans) for name, spans in by_rule_set.items()}


def uncovered(weekly: Iterable[WeeklyPeriod]) -> tuple[int, int] | None:
    """Return the first part of the week that no period covers, in seconds since Monday 00:00; None when all is."""
    spans = sorted((period.weekday * DAY + period.begin, period.weekday * DAY + period.end) for period in weekly)
    until = 0
    for left, right in (*spans, (WEEK, WEEK)):
        if left > until:
            return until, left
        until = max(until, right)
    return None


def overlap(periods: Iterable[WeeklyPeriod]) -> tuple[WeeklyPeriod, WeeklyPeriod] | None:
    """Return two periods of the week that overlap, None when none do."""
    ordered = sorted(periods, key=lambda period: (period.weekday, period.begin))
    return next(
        (
            (earlier, later)
            for earlier, later in pairwise(ordered)
            if earlier.weekday == later.weekday and later.begin < earlier.end
        ),
        None,
    )


def clash(periods: Iterable[DatedPeriod]) -> tuple[DatedPeriod, DatedPeriod] | None:
    """Return two exceptions that overlap, None when none do."""
    ordered = sorted(periods, key=lambda period: period.begin)
    return next(((earlier, later) for earlier, later in pairwise(ordered) if later.begin < earlier.end), None)


_Part = tuple[float, float, str]


def _unrolled(calendar: QuotaCalendar, begin: float, end: float) -> list[_Part]:
    """Return the periods of the week on every day that touches [begin, end)."""
    if not calendar.weekly:
        return []
    zone, parts, until = calendar.zone, list[_Part](), begin - DAY * 2
    periods = sorted(calendar.weekly, key=lambda entry: (entry.weekday, entry.begin))
    day = datetime.fromtimestamp(begin, zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    day -= timedelta(days=1)
    while _instant(day, 0, zone) < end:
        for period in periods:
            if period.weekday == day.weekday():
                left = max(until, _instant(day, period.begin, zone))  # no overlap after a skipped hour
                until = max(left, _instant(day, period.end, zone))
                parts.append((left, until, period.rule_set))
        day += timedelta(days=1)
    return parts


def _instant(day: datetime, seconds: int, zone: tzinfo | None) -> float:
    """Return the epoch seconds of a time of the day in a time zone."""
    return (day + timedelta(seconds=seconds)).replace(tzinfo=zone).timestamp()


def _inside(parts: Iterable[_Part], begin: float, end: float) -> list[_Part]:
    """Return the parts within [begin, end), ascending, without empty ones."""
    cut = ((max(left, begin), min(right, end), name) for left, right, name in parts)
    return sorted(part for part in cut if part[0] < part[1])


def _gaps(parts: Sequence[_Part], begin: float, end: float) -> list[Span]:
    """Return the spans that ascending ``parts`` leave of [begin, end)."""
    gaps, until = [], begin
    for left, right, _ in parts:
        if left > until:
            gaps.append((until, left))
        until = max(until, right)
    return [*gaps, (until, end)] if until < end else gaps
