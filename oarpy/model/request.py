"""The request language of ``oarsub -l``: ``{filter}/switch=2/nodes=1/core=4+/licence=1,walltime=1:30:0``.

Grammar (OAR 2.5)::

    REQUEST := [GROUP ('+' GROUP)*] [',' 'walltime=' DURATION]
    GROUP   := ['{' SQL '}'] LEVEL+
    LEVEL   := ['/'] NAME '=' (INTEGER | 'ALL' | 'BEST' | 'BESTHALF')

Braces and quotes are read first, so a filter may hold any of ``, + / =``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from oarpy.model.durations import parse_duration
from oarpy.model.errors import UsageError

MAXIMUM_LENGTH = 10_000
"""Longest request accepted, in characters."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)
_MAXIMUM_COUNT = 10_000_000


class Count(IntEnum):
    """The counts that are words, stored as OAR stores them."""

    ALL = -1
    BEST = -2
    BESTHALF = -3


@dataclass(frozen=True, slots=True)
class Level:
    """``/name=count``; ``count`` is above 0 or one of :class:`Count`."""

    name: str
    count: int

    def __str__(self) -> str:
        return f"/{self.name}={Count(self.count).name if self.count < 0 else self.count}"


@dataclass(frozen=True, slots=True)
class Group:
    """One hierarchy of levels, outermost first, restricted by an SQL condition (``""`` = none)."""

    levels: tuple[Level, ...]
    filter: str = ""

    def __str__(self) -> str:
        condition = f"{{{self.filter}}}" if self.filter else ""
        return condition + "".join(map(str, self.levels))


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """One alternative of a job: groups served together, for ``walltime`` seconds (None = not said)."""

    groups: tuple[Group, ...]
    walltime: int | None = None

    def __str__(self) -> str:
        return "+".join(map(str, self.groups))


def parse_request(text: str) -> ResourceRequest:
    """Read one ``-l`` argument. ``groups`` is empty when only a walltime is given.

    Raises :class:`UsageError` naming the part that is wrong.

    >>> str(parse_request("{mem > 4}/nodes=2/core=1+/licence=3,walltime=0:10:0"))
    '{mem > 4}/nodes=2/core=1+/licence=3'
    """
    if len(text) > MAXIMUM_LENGTH:
        raise UsageError(f"resource request of {len(text)} characters", hint=f"at most {MAXIMUM_LENGTH}")
    body, walltime = _split_walltime(text.strip())
    if not body:
        if walltime is None:
            raise UsageError("empty resource request", hint="for example -l /nodes=1/core=2,walltime=1:0:0")
        return ResourceRequest((), walltime)
    return ResourceRequest(tuple(_group(part) for part in _split(body, "+")), walltime)


def _split_walltime(text: str) -> tuple[str, int | None]:
    parts = _split(text, ",")
    walltime: int | None = None
    kept = []
    for part in parts:
        name, _, value = part.partition("=")
        if name.strip().lstrip("/") != "walltime":
            kept.append(part)
        elif walltime is not None:
            raise UsageError(f"walltime given twice in '{text[:80]}'", hint="once for each -l")
        else:
            walltime = parse_duration(value)
    if len(kept) > 1:
        raise UsageError(
            f"unexpected ',{kept[1][:80]}' in the resource request",
            hint="join groups with '+', end with ,walltime=H:M:S",
        )
    return "".join(kept).strip(), walltime


def _split(text: str, separator: str) -> list[str]:
    """Cut ``text`` at ``separator`` outside braces and quotes."""
    parts, start, inside, quote = [], 0, False, ""
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif inside and letter in "'\"":
            quote = letter
        elif letter in "{}":
            if inside == (letter == "{"):
                raise UsageError(f"unbalanced '{letter}' in '{text[:80]}'", hint="a filter is written {SQL}")
            inside = letter == "{"
        elif letter == separator and not inside:
            parts.append(text[start:place])
            start = place + 1
    if inside or quote:
        raise UsageError(f"unbalanced '{{' or quote in '{text[:80]}'", hint="a filter is written {SQL}")
    return [*parts, text[start:]]


def _group(text: str) -> Group:
    condition, levels = "", text.strip()
    if levels.startswith("{"):
        end = _closing_brace(levels)
        condition, levels = levels[1:end].strip(), levels[end + 1 :].strip()
        if not condition:
            raise UsageError(f"empty filter in '{text[:80]}'", hint="write {SQL} or leave the braces out")
    levels = levels.removeprefix("/")
    if not levels:
        raise UsageError(f"no level in resource group '{text[:80]}'", hint="for example /nodes=1/core=2")
    parsed = tuple(_level(part, text) for part in levels.split("/"))
    names = [level.name for level in parsed]
    if len(set(names)) < len(names):
        raise UsageError(f"level named twice in '{text[:80]}'", hint="each level once, outermost first")
    return Group(parsed, condition)


def _closing_brace(text: str) -> int:
    quote = ""
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "}":
            return place
    raise UsageError(f"unbalanced '{{' in '{text[:80]}'", hint="a filter is written {SQL}")


def _level(text: str, group: str) -> Level:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not _NAME.fullmatch(name):
        raise UsageError(f"'{text[:80]}' is not a level of '{group[:80]}'", hint="write /name=count")
    if not equals:
        raise UsageError(f"level '{name}' has no count", hint=f"write /{name}=1")
    if value in Count.__members__:
        return Level(name, Count[value].value)
    if not (value.isascii() and value.isdigit()) or not 0 < len(value) <= 12:
        raise UsageError(
            f"count '{value[:40]}' of level '{name}' is not a number above 0", hint="or ALL, BEST, BESTHALF"
        )
    if not 0 < int(value) <= _MAXIMUM_COUNT:
        raise UsageError(f"count {value} of level '{name}' is out of range", hint=f"1 to {_MAXIMUM_COUNT}")
    return Level(name, int(value))
