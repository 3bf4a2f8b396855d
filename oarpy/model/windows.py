"""Windows of reservations as users ask for them: how long they may be put off, when they are fixed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from oarpy.model.durations import parse_duration
from oarpy.model.errors import UsageError

NOW, NEVER = "now", "never"
_PERCENT = re.compile(r"(\d{1,4})\s*%", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class AskedWindow:
    """A reservation runs inside [ready, deadline]. It moves until ``fix_after`` percent of the time to its start.

    None: it always may. Where the window cannot be had, a start up to ``farthest`` run times away will do.
    The deadline may be that of the longest alternative alone: others then end earlier by their shorter walltimes, and
    have ``slack_percent`` of these as room.
    """

    ready: datetime
    deadline: datetime
    fix_after: int | None = None
    farthest: float | None = None
    slack_percent: int | None = None


def read_fix(text: str) -> int | None:
    """Return after how many percent of the time to its start a reservation is fixed, None for never.

    >>> read_fix("now"), read_fix("50%"), read_fix("never")
    (0, 50, None)
    """
    word = text.strip()
    match = _PERCENT.fullmatch(word)
    if word == NEVER:
        return None
    if word == NOW:
        return 0
    if match is None or int(match[1]) > 100:
        raise UsageError(f"'{text[:80]}' says not when a reservation is fixed", hint="now, never, or 0% to 100%")
    return int(match[1])


def slack_percent(text: str) -> int:
    """Return the percent of its walltime by which each alternative may be put off, 0 for a duration.

    >>> slack_percent("50%"), slack_percent("2h")
    (50, 0)
    """
    match = _PERCENT.fullmatch(text.strip())
    return int(match[1]) if match else 0


def read_slack(text: str, walltime: int) -> int:
    """Return the seconds by which a reservation of ``walltime`` may be put off.

    >>> read_slack("50%", 7200), read_slack("2h", 7200)
    (3600, 7200)
    """
    if percent := slack_percent(text):
        return walltime * percent // 100
    try:
        return parse_duration(text)
    except UsageError:
        raise UsageError(
            f"'{text[:80]}' is no room for a reservation", hint="a share of the walltime, 50%, or a duration, 2h"
        ) from None


def read_farthest(text: str) -> float:
    """Return by how many run times a reservation may miss its window."""
    if not _NUMBER.fullmatch(text.strip()):
        raise UsageError(f"--farthest '{text[:80]}' is no distance", hint="run times, 0 or more: 0.5")
    return float(text)
