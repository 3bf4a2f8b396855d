"""Durations as users write them: ``1:30:0``, ``2`` (hours, as OAR reads a bare number), ``1h30m``, ``90s``."""

from __future__ import annotations

import re

from oarpy.model.errors import UsageError

_COLONS = re.compile(r"(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?", re.ASCII)
_UNITS = re.compile(r"(?=\d)(?:(\d{1,6})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m(?:in)?)?(?:(\d{1,9})s)?", re.ASCII)
LONGEST_DURATION = 10 * 366 * 86400
"""Seconds."""


def parse_duration(text: str) -> int:
    """Return the seconds meant by ``text``; raise :class:`UsageError` when it is not a duration above 0.

    >>> parse_duration("1:30:0"), parse_duration("2"), parse_duration("1h30m"), parse_duration("0:0:5")
    (5400, 7200, 5400, 5)
    """
    seconds = _seconds(text.strip())
    if seconds is None:
        raise UsageError(f"'{text[:80]}' is not a duration", hint="use hours[:minutes[:seconds]] or 1h30m")
    if not 0 < seconds <= LONGEST_DURATION:
        raise UsageError(f"duration '{text[:80]}' is out of range", hint="between 1 second and 10 years")
    return seconds


def _seconds(text: str) -> int | None:
    """Return the seconds that a text means, 0 included; None when it is no duration."""
    if match := _COLONS.fullmatch(text):
        hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return hours * 3600 + minutes * 60 + seconds
    if text and (match := _UNITS.fullmatch(text)):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return days * 86400 + hours * 3600 + minutes * 60 + seconds
    return None


def format_duration(seconds: float) -> str:
    """Return ``h:m:s`` as OAR prints it (``1:30:0``).

    >>> format_duration(5400)
    '1:30:0'
    """
    whole = int(seconds)
    return f"{whole // 3600}:{whole % 3600 // 60}:{whole % 60}"
