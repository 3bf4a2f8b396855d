"""The typed words after ``oargridsub``, and the numbers and dates among them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite

from oarpy.model.dates import FARTHEST, read_date
from oarpy.model.durations import LONGEST_DURATION, parse_duration
from oarpy.model.errors import UsageError
from oarpy.model.submission_checks import short

_LATE = timedelta(seconds=60)
"""A start that was "now" when a program wrote it may be that late here."""
_LEAD = timedelta(seconds=10)
"""The time that clusters have to reserve parts that begin at once: they refuse a date that is past when they answer."""
_SECONDS = re.compile(r"\d{1,9}(?:\.\d{1,9})?", re.ASCII)
_DECIMAL = re.compile(r"\d{0,9}(?:\.\d{1,18})?(?:[eE]-?\d{1,3})?", re.ASCII)
_ENDLESS = frozenset({"inf", "infinite", "infinity"})


@dataclass(frozen=True, slots=True)
class GridOptions:
    """Each field has the text of its option, None if it was not given; ``words`` stand behind the options."""

    words: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    program: str | None = None
    start: str | None = None
    walltime: str | None = None
    components: str | None = None
    deadline: str | None = None
    lp: str | None = None
    tries: str | None = None
    wait: str | None = None
    array: str | None = None
    parts: str | None = None
    overhead: str | None = None
    operation: str | None = None
    at_most: tuple[str, ...] = ()
    processes: str | None = None
    iterations: str | None = None
    sizes: str | None = None
    model: str | None = None
    rate: str | None = None
    until: str | None = None
    bag: str | None = None
    policy: str | None = None
    strict: bool = False
    profile: str | None = None
    queue: str | None = None
    types: tuple[str, ...] = ()
    directory: str | None = None
    name: str | None = None
    project: str | None = None
    properties: str | None = None
    notify: str | None = None


def read_start(text: str | None, now: datetime) -> float:
    """Return the date of ``-s`` in epoch seconds; None, now, and dates just past mean as soon as possible."""
    if text is None:
        return (now + _LEAD).timestamp()
    start = read_date(text, now)
    if start < now - _LATE:
        raise UsageError(f"start '{short(text.strip())}' is in the past", hint="a later date, or leave -s out for now")
    return _near("start", text, max(start, now + _LEAD), now)


def read_deadline(text: str, now: datetime) -> float:
    """Return the date of ``--deadline`` in epoch seconds."""
    deadline = read_date(text, now)
    if deadline <= now:
        raise UsageError(f"deadline '{short(text.strip())}' is in the past", hint="a later date, such as +30m")
    return _near("deadline", text, deadline, now)


def _near(what: str, text: str, date: datetime, now: datetime) -> float:
    if date > now + FARTHEST:
        raise UsageError(f"{what} '{short(text.strip())}' is too far away", hint="at most 10 years")
    return date.timestamp()


def read_overhead(text: str) -> float:
    """Return the share of ``--overhead``: nothing to all of the time."""
    digits = text.strip().removesuffix("%")
    if not text.strip().endswith("%") or not _SECONDS.fullmatch(digits) or float(digits) > 100:
        raise UsageError(f"--overhead '{short(text)}' is out of range", hint="0% to 100% of the walltime, such as 20%")
    return float(digits) / 100


def read_at_most(texts: tuple[str, ...]) -> dict[str, int]:
    """Return processors by cluster, as ``--at-most a=4`` has them."""
    limits: dict[str, int] = {}
    for word in ",".join(texts).split(",") if texts else ():
        name, sign, count = word.strip().partition("=")
        if not name or not sign or not count.isascii() or not count.isdigit() or len(count) > 9:
            raise UsageError(f"--at-most '{short(word)}' is no limit of a cluster", hint="CLUSTER=NUMBER, such as a=4")
        if name in limits:
            raise UsageError(f"--at-most names '{short(name)}' twice", hint="give one limit for each cluster")
        limits[name] = int(count)
    return limits


def read_until(text: str, now: datetime, walltime: float) -> float:
    """Return the date of ``--until`` in epoch seconds, from which on the job is over."""
    date = read_date(text, now)
    if date < now + timedelta(seconds=walltime):
        raise UsageError(
            f"--until '{short(text.strip())}' is before its walltime could be over",
            hint="a later date, or a shorter -l",
        )
    return _near("--until", text, date, now)


def read_share(text: str) -> float:
    """Return Lp: above 0, at most 1."""
    value = float(text) if _DECIMAL.fullmatch(text.strip()) and any(map(str.isdigit, text)) else 0.0
    if not (isfinite(value) and 0 < value <= 1):
        raise UsageError(f"--lp '{short(text)}' is out of range", hint="a number above 0 and at most 1, such as 0.7")
    return value


def read_wait(text: str) -> float:
    """Return the X of Wait-X in seconds: a number of seconds, a duration with its units, or ``inf``."""
    word = text.strip().lower()
    if word in _ENDLESS:
        return float(LONGEST_DURATION)
    if _SECONDS.fullmatch(word):
        seconds = float(word)
    elif any(map(str.isalpha, word)) or ":" in word:
        seconds = float(parse_duration(word))
    else:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_DURATION:
        raise UsageError(f"--wait '{short(text)}' is out of range", hint="seconds, 10m, or inf")
    return seconds
