"""Periods as users write them: ``2026-05-01, 2026-05-02``, ``yesterday, now`` or ``today``; dates that reports take."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from oarpy.model.dates import FORMS, read_date, read_end, read_span
from oarpy.model.errors import UsageError

_AGE = re.compile(r"[0-9]+[smhdw]")


def parse_date(text: str) -> datetime:
    """Return the moment meant by ``text``; raise :class:`UsageError` when it is not a date."""
    return _in_range(read_date(text, _now()), text)


def parse_past_date(text: str) -> datetime:
    """Return a past date; raise :class:`UsageError` for a date in the future."""
    moment = parse_date(text)
    if moment > _now():
        raise UsageError(
            f"{moment.astimezone():%Y-%m-%d %H:%M:%S} is to come, and --at shows what was",
            hint="oarstat --gantt 'now, +1d' shows what is planned",
        )
    return moment


def parse_period(text: str) -> tuple[datetime, datetime]:
    """Return the two moments of ``d1, d2``, or of one date or age.

    Raises :class:`UsageError` unless the first is before the second.
    """
    parts = text.split(",")
    if len(parts) > 2:
        raise UsageError(
            f"'{text[:60]}' is not a period", hint="write two dates: 'now, +30m', or one: yesterday, -7d, YYYY-MM-DD"
        )
    now = _now()
    if len(parts) == 1:
        begin, end = (_in_range(moment, text) for moment in read_span(_shift(text), now))
    else:
        begin = _in_range(read_date(parts[0], now), parts[0])
        end = _in_range(read_end(parts[1], now, begin), parts[1])
    if begin >= end:
        raise UsageError(f"period '{text[:60]}' is empty", hint="the first date must be before the second")
    return begin, end


def parse_since(text: str) -> datetime:
    """Return the moment meant by a date, or by an age such as ``2h`` or ``7d``."""
    return parse_date(_shift(text))


def parse_date_or_age(text: str) -> datetime:
    """Return the moment meant by a date, or by a number of seconds before now."""
    if text.isascii() and text.isdigit():
        try:
            return datetime.now(UTC) - timedelta(seconds=int(text))
        except (OverflowError, ValueError):
            raise UsageError(f"{text[:20]} seconds ago is out of range", hint=f"or {FORMS}") from None
    return parse_date(text)


def _shift(text: str) -> str:
    """Return an age as the date that it means."""
    return f"-{text.strip()}" if _AGE.fullmatch(text.strip()) else text


def _now() -> datetime:
    return datetime.now().astimezone()


def _in_range(moment: datetime, text: str) -> datetime:
    if not 1970 <= moment.year < 2200:
        raise UsageError(f"date '{text[:60]}' is out of range", hint="between 1970 and 2200")
    return moment.astimezone(UTC)
