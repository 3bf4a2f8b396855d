"""Dates and periods as users write them, in local time: ``2026-05-01 12:00:00``, ``2026-05-01, 2026-05-02``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from oarpy.model.errors import UsageError

_HINT = "write YYYY-MM-DD or 'YYYY-MM-DD hh:mm:ss'"


def parse_date(text: str) -> datetime:
    """Return the moment meant by ``text``; raise :class:`UsageError` when it is not a date."""
    try:
        moment = datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"'{text[:60]}' is not a date", hint=_HINT) from None
    if not 1970 <= moment.year < 2200:
        raise UsageError(f"date '{text[:60]}' is out of range", hint="between 1970 and 2200")
    return moment


def parse_period(text: str) -> tuple[datetime, datetime]:
    """Return the two moments of ``d1, d2``; raise :class:`UsageError` unless the first is before the second."""
    parts = text.split(",")
    if len(parts) != 2:
        raise UsageError(f"'{text[:60]}' is not a period", hint="write two dates: 'YYYY-MM-DD, YYYY-MM-DD'")
    begin, end = parse_date(parts[0]), parse_date(parts[1])
    if begin >= end:
        raise UsageError(f"period '{text[:60]}' is empty", hint="the first date must be before the second")
    return begin, end


def parse_date_or_age(text: str) -> datetime:
    """Return the moment meant by a date, or by a number of seconds before now."""
    if text.isascii() and text.isdigit():
        try:
            return datetime.now(UTC) - timedelta(seconds=int(text))
        except (OverflowError, ValueError):
            raise UsageError(f"{text[:20]} seconds ago is out of range", hint=_HINT) from None
    return parse_date(text)
