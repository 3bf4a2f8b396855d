"""Periods of the week as OAR writes them: ``08:00-19:00 mon-fri * *``, and the way back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from oarpy.model.errors import UsageError
from oarpy.model.quota_calendar import DAY, WEEKDAYS, WeeklyPeriod

OTHERWISE = "* * * *"
"""The period that is whatever the others leave."""

_TIME = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?", re.ASCII)
_FORM = "write times, weekdays and two stars, such as 08:00-19:00 mon-fri * *"


def parse_period(text: str, rule_set: str, label: str = "") -> tuple[WeeklyPeriod, ...]:
    """Return a period for each day; one that ends at or before its beginning lasts into the next day.

    Raises :class:`UsageError`; months and days of the month are not known.

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
    found = []
    for weekday in _weekdays(words[1], text):
        if begin < end:
            found.append(WeeklyPeriod(weekday, begin, end, rule_set, label))
            continue
        found.append(WeeklyPeriod(weekday, begin, DAY, rule_set, label))
        if end:
            found.append(WeeklyPeriod((weekday + 1) % 7, 0, end, rule_set, label))
    return tuple(found)


def period_texts(weekly: Sequence[WeeklyPeriod]) -> list[tuple[str, str, str]]:
    """Return text, rule set and label of periods, those that differ in their days alone as one.

    >>> period_texts(parse_period("19:00-24:00 fri-mon * *", "night"))
    [('19:00-00:00 mon,fri-sun * *', 'night', '')]
    """

    def alike(one: WeeklyPeriod) -> tuple[int, int, str, str]:
        return one.begin, one.end, one.rule_set, one.label

    found = []
    for (begin, end, rule_set, label), same in groupby(sorted(weekly, key=alike), key=alike):
        days = [one.weekday for one in same]
        times = "*" if (begin, end) == (0, DAY) else f"{_clock(begin)}-{_clock(end)}"
        found.append((min(days), begin, f"{times} {_days_text(days)} * *", rule_set, label))
    return [(text, rule_set, label) for _, _, text, rule_set, label in sorted(found)]


def _times(word: str, text: str) -> tuple[int, int]:
    begin, end = (_time(part) for part in (*word.split("-"), "")[:2])
    if begin is None or end is None or begin == DAY or word.count("-") > 1:
        raise UsageError(f"period '{text[:60]}': '{word[:20]}' are no times", hint=_FORM)
    if begin == end:
        raise UsageError(f"period '{text[:60]}' is empty", hint="* is the whole day")
    return begin, end


def _time(word: str) -> int | None:
    found = _TIME.fullmatch(word)
    if found is None or int(found[2]) > 59 or int(found[3] or 0) > 59:
        return None
    seconds = int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3] or 0)
    return seconds if seconds <= DAY else None


def _weekdays(word: str, text: str) -> list[int]:
    if word == "*":
        return list(range(7))
    found: list[int] = []
    for part in word.split(","):
        first, dash, last = part.partition("-")
        if first not in WEEKDAYS or (dash and last not in WEEKDAYS):
            raise UsageError(f"period '{text[:60]}': '{part[:20]}' is no weekday", hint=", ".join(WEEKDAYS))
        begin = WEEKDAYS.index(first)
        end = WEEKDAYS.index(last) if dash else begin
        found += [day % 7 for day in range(begin, end + 1 if begin <= end else end + 8)]
    return found


def _days_text(days: Sequence[int]) -> str:
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
    seconds %= DAY
    text = f"{seconds // 3600:02}:{seconds % 3600 // 60:02}"
    return f"{text}:{seconds % 60:02}" if seconds % 60 else text
