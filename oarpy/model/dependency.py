"""Dependencies as ``oarsub -a`` takes them: ``7``, ``ok:7``, ``7,[+60``, ``7,]+0:10:0,]+1:0:0``.

A bare id waits for the end of that job, ``ok:`` and ``notok:`` for a certain outcome. With ``corr:`` and the id of an
array, each member of an array waits until the member with its number there has ended well. ``[`` counts from its start,
``]`` from its end. The first such shift is the earliest start of the dependant, the second one its latest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast

from oarpy.model.durations import format_duration, parse_duration
from oarpy.model.errors import UsageError

Outcome = Literal["any", "ok", "notok", "corr"]
Edge = Literal["start", "end"]

_DEPENDENCY = re.compile(r"(?:(ok|notok|any|corr):)?([0-9]{1,18})(?:,([^,]*))?(?:,([^,]*))?", re.ASCII)
_NAMED = re.compile(r"((?:ok|notok|any|corr):)?(last|@[^,]+)((?:,.*)?)")
_SHIFT = re.compile(r"([][])\s*([+-]?)\s*(\S+)", re.ASCII)
_SECONDS = re.compile(r"\d{1,9}", re.ASCII)
_MARKS: dict[str, Edge] = {"[": "start", "]": "end"}
_HINT = (
    "write -a ID, -a ok:ID, -a notok:ID, -a corr:ARRAY, -a ID,[+SECONDS (after its start)"
    " or -a ID,]+SECONDS (after its end);"
    " ID may be last or @NAME"
)


@dataclass(frozen=True, slots=True)
class Shift:
    """An instant relative to another job: ``seconds`` after its start or its end, before it if below 0."""

    edge: Edge
    seconds: int

    def __str__(self) -> str:
        mark = "[" if self.edge == "start" else "]"
        length = format_duration(abs(self.seconds)) if self.seconds else "0"
        return f"{mark}{'-' if self.seconds < 0 else '+'}{length}"


@dataclass(frozen=True, slots=True)
class Dependency:
    """A start after job ``job`` has ended with the required outcome, or within a window relative to it.

    ``earliest`` replaces the end of the job; ``latest`` is the last instant at which the dependant may start. With the
    outcome ``corr``, ``job`` is an array; such a dependency is of a submission, and its jobs have each their own.
    """

    job: int
    outcome: Outcome = "any"
    earliest: Shift | None = None
    latest: Shift | None = None

    def of_member(self, members: Mapping[int, int], index: int) -> Dependency:
        """Return the dependency of the job number ``index`` of an array; ``members`` are those of ``job``."""
        return self if self.outcome != "corr" else replace(self, job=members[index], outcome="ok")

    def __str__(self) -> str:
        text = str(self.job) if self.outcome == "any" else f"{self.outcome}:{self.job}"
        if self.earliest is not None or self.latest is not None:
            text += f",{self.earliest or ''}"
        return text if self.latest is None else f"{text},{self.latest}"


def other_word(text: str) -> str | None:
    """Return ``last`` or ``@NAME`` if a dependency names its job so, None for an id.

    >>> other_word("ok:@prepare,[+90"), other_word("7")
    ('@prepare', None)
    """
    match = _NAMED.fullmatch(text.strip())
    return None if match is None else match[2]


def with_job(text: str, job: int) -> str:
    """Return the dependency with the id of its job in place of :func:`other_word`.

    >>> with_job("ok:last,[+90", 7)
    'ok:7,[+90'
    """
    return _NAMED.sub(lambda match: f"{match[1] or ''}{job}{match[3]}", text.strip())


def parse_dependency(text: str) -> Dependency:
    """Read a dependency. Raises :class:`UsageError`.

    >>> str(parse_dependency("ok:7,[+90,]+1:0:0"))
    'ok:7,[+0:1:30,]+1:0:0'
    """
    match = _DEPENDENCY.fullmatch(text.strip())
    if match is None or not int(match[2]):
        raise UsageError(f"dependency '{text[:80]}' is not a job id", hint=_HINT)
    earliest, latest = _shift(match[3], text), _shift(match[4], text)
    dependency = Dependency(int(match[2]), cast(Outcome, match[1] or "any"), earliest, latest)
    if earliest and latest and earliest.edge == latest.edge and earliest.seconds > latest.seconds:
        raise UsageError(f"dependency '{text[:80]}' leaves no time", hint="the second shift is the later one")
    return dependency


def _shift(text: str | None, whole: str) -> Shift | None:
    """Read ``[+T`` or ``]-T``, where T is seconds or h:m:s; None for an empty text. Raises :class:`UsageError`."""
    if text is None or not text.strip():
        return None
    match = _SHIFT.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"dependency '{whole[:80]}' has a shift that is not understood", hint=_HINT)
    mark, sign, amount = match.groups()
    seconds = int(amount) if _SECONDS.fullmatch(amount) else parse_duration(amount)
    return Shift(_MARKS[mark], -seconds if sign == "-" else seconds)
