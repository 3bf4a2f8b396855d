"""The request language of ``oarsub -l``: ``{filter}/switch=2/nodes=1/core=4+/licence=1,memory=16G,walltime=1:30:0``.

Grammar (OAR 2.5, and consumables)::

    REQUEST := [GROUP ('+' GROUP)*] (',' 'walltime=' DURATION | ',' NAME '=' AMOUNT)*
    AMOUNT  := INTEGER ['K' | 'M' | 'G' | 'T']
    GROUP   := ['{' SQL '}'] LEVEL+
    LEVEL   := ['/'] NAME '=' (INTEGER | 'ALL' | 'BEST' | 'BESTHALF')

``memory=16G`` asks for this amount of a consumable on each block of its level (each host, say); K is 1024. Braces and
quotes are read first, so a filter may hold any of ``, + / =``.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from enum import IntEnum

from oarpy.model.amounts import AMOUNT, format_amount, parse_amount
from oarpy.model.durations import parse_duration
from oarpy.model.errors import UsageError

MAXIMUM_LENGTH = 10_000
"""Longest request accepted, in characters."""

_LONGEST_KEPT = 200
"""Longest request that is remembered, in characters."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)
_PBS_COUNT = re.compile(r"([0-9]+):ppn=([0-9]+)")
"""``nodes=4:ppn=2``, as PBS has it."""
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
class Consumption:
    """``amount`` of the consumable ``name`` on each block of its level."""

    name: str
    amount: int

    def __str__(self) -> str:
        return f"{self.name}={format_amount(self.amount)}"


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """One alternative of a job: groups served together, for ``walltime`` seconds (None = not said)."""

    groups: tuple[Group, ...]
    walltime: int | None = None
    consumes: tuple[Consumption, ...] = ()

    def __str__(self) -> str:
        return ",".join(["+".join(map(str, self.groups)), *map(str, self.consumes)])


def parse_request(text: str) -> ResourceRequest:
    """Read one ``-l`` argument. ``groups`` is empty when only a walltime is given.

    Raises :class:`UsageError` naming the part that is wrong.

    >>> str(parse_request("{mem > 4}/nodes=2/core=1+/licence=3,walltime=0:10:0"))
    '{mem > 4}/nodes=2/core=1+/licence=3'
    """
    if len(text) > MAXIMUM_LENGTH:
        raise UsageError(f"resource request of {len(text)} characters", hint=f"at most {MAXIMUM_LENGTH}")
    return _parsed(text) if len(text) <= _LONGEST_KEPT else _parse(text)


def _parse(text: str) -> ResourceRequest:
    if text.strip() and "=" not in text:
        raise UsageError(
            f"'{text.strip()[:80]}' is not a resource request", hint="for example -l /nodes=1/core=2,walltime=1:0:0"
        )
    walltime: int | None = None
    parts = []
    for part in _split(text.strip(), ","):
        name, _, value = part.partition("=")
        if name.strip().lstrip("/") != "walltime":
            parts.append(part.strip())
        elif walltime is not None:
            raise UsageError(f"walltime given twice in '{text[:80]}'", hint="once for each -l")
        else:
            walltime = parse_duration(value)
    body, *options = parts or [""]
    consumes = tuple(map(_consumption, options))
    if len({consumption.name for consumption in consumes}) < len(consumes):
        raise UsageError(f"a consumable is given twice in '{text[:80]}'", hint="once for each -l")
    if body or consumes:
        return ResourceRequest(tuple(_group(part) for part in _split(body, "+")), walltime, consumes)
    if walltime is None:
        raise UsageError("empty resource request", hint="for example -l /nodes=1/core=2,walltime=1:0:0")
    return ResourceRequest((), walltime)


_parsed = functools.lru_cache(maxsize=1024)(_parse)


def _consumption(text: str) -> Consumption:
    """Read ``memory=16G``. Raises :class:`UsageError` when it is no amount of a consumable."""
    name, _, value = (part.strip() for part in text.partition("="))
    if not _NAME.fullmatch(name) or not AMOUNT.fullmatch(value):
        raise UsageError(
            f"unexpected ',{text[:80]}' in the resource request",
            hint="join groups with '+', end with ,walltime=H:M:S",
        )
    return Consumption(name, parse_amount(value, name))


def _split(text: str, separator: str) -> list[str]:
    """Cut ``text`` at ``separator`` outside braces and quotes. Raises :class:`UsageError` when these do not close."""
    if "{" not in text and "}" not in text:
        return text.split(separator)
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
    """Read ``{SQL}/LEVEL=COUNT...``. Raises :class:`UsageError`."""
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
    """Return where the filter that begins a group ends: the first brace outside quotes."""
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
    """Read ``NAME=COUNT``; errors quote ``group``. Raises :class:`UsageError`."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not _NAME.fullmatch(name):
        raise UsageError(f"'{text[:80]}' is not a level of '{group[:80]}'", hint="write /name=count")
    if name == "walltime":
        raise UsageError(f"walltime stands among the levels of '{group[:80]}'", hint="write it last: ,walltime=H:M:S")
    if not equals:
        raise UsageError(f"level '{name}' has no count", hint=f"write /{name}=1")
    if AMOUNT.fullmatch(value) and not value.isdigit():
        raise UsageError(
            f"'{name}={value}' is an amount, not a level", hint=f"amounts come last: /nodes=1,{name}={value}"
        )
    if value in Count.__members__:
        return Level(name, Count[value].value)
    if of_pbs := _PBS_COUNT.fullmatch(value):
        raise UsageError(
            f"count '{value[:40]}' of level '{name}' is not a number",
            hint=f"write /{name}={of_pbs[1]}/core={of_pbs[2]}",
        )
    if not (value.isascii() and value.isdigit()) or not 0 < len(value) <= 12:
        raise UsageError(
            f"count '{value[:40]}' of level '{name}' is not a number above 0", hint="or ALL, BEST, BESTHALF"
        )
    if not 0 < int(value) <= _MAXIMUM_COUNT:
        raise UsageError(f"count {value} of level '{name}' is out of range", hint=f"1 to {_MAXIMUM_COUNT}")
    return Level(name, int(value))
