"""Resources in one line: ``/host=node[1-4]/cpu={2}/core={4}``.

Levels go from the outside in. ``name={n}`` makes n of the level in each parent, numbered through the whole cluster
after the highest number in use. ``name=SET`` names them: a ClusterShell node set such as ``node[1-4,7]``; under a
parent level the names are dealt out evenly, in order. The innermost level makes the resources. Properties get their
values by words such as ``mem=64``, and ``model!`` for none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from oarpy.model.errors import UsageError

LARGEST = 1_000_000
"""Most resources made at once."""

MOST_NAMES = 100_000
"""Most nodes that a command names."""

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)
_COUNT = re.compile(r"\{(\d{1,7})\}", re.ASCII)
_COMMA = re.compile(r",(?![^\[\]]*\])")
"""A comma outside of brackets."""
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
_NO_LEVEL = {"resource_id", "type", "state", "drain", "besteffort", "deploy", "available_upto", "cpuset"}
_ELSEWHERE = {
    "resource_id": "ids are given by the database",
    "state": "use -s STATE",
}


@dataclass(frozen=True, slots=True)
class PatternLevel:
    """``name={count}`` when ``names`` is empty, else ``name=SET``."""

    name: str
    count: int
    names: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The type a new column for this level gets."""
        return "integer" if all(_NUMBER.fullmatch(name) for name in self.names) else "text"


Row = dict[str, "int | str | None"]
"""The values of one resource, by level; None: it has none."""


def parse_pattern(text: str) -> tuple[PatternLevel, ...]:
    """Read a pattern; raise :class:`UsageError` naming the level that is wrong."""
    body = text.strip().removeprefix("/")
    if not body:
        raise UsageError("empty resource pattern", hint="for example /host=node[1-4]/cpu={2}/core={4}")
    levels = tuple(_level(part, text) for part in body.split("/"))
    names = [level.name for level in levels]
    if len(set(names)) < len(names):
        raise UsageError(f"level named twice in '{text[:80]}'", hint="each level once, outermost first")
    return levels


def _level(part: str, text: str) -> PatternLevel:
    name, equals, value = (piece.strip() for piece in part.partition("="))
    if not _NAME.fullmatch(name) or not equals or not value:
        raise UsageError(f"'{part[:60]}' in '{text[:80]}' is no level", hint="write name={count} or name=node[1-4]")
    if name in _NO_LEVEL:
        raise UsageError(f"'{name}' cannot be a level of resources", hint="give it with -p or --type")
    if match := _COUNT.fullmatch(value):
        if not 0 < int(match[1]) <= LARGEST:
            raise UsageError(f"level '{name}' of {value} is out of range", hint=f"1 to {LARGEST}")
        return PatternLevel(name, int(match[1]))
    if "{" in value or "}" in value:
        raise UsageError(f"'{value[:60]}' of level '{name}' is no count", hint="write {4} for 4 in each parent")
    names = node_names(value)
    return PatternLevel(name, len(names), names)


def node_names(*texts: str) -> tuple[str, ...]:
    """Return the names in ClusterShell node sets, each once, in their order.

    Raises :class:`UsageError` when one is none, or when they name more than :data:`MOST_NAMES` together.
    """
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    named = 0
    distinct: dict[str, None] = {}
    for text in texts:
        _check_plain(text)
        # One by one: sets of several ranges are folded into one another for minutes.
        for part in _COMMA.split(text):
            named += _size(part)
            if named > MOST_NAMES:
                raise UsageError(f"'{text[:60]}' names over {MOST_NAMES} nodes", hint="name them in parts")
            try:
                names = tuple(NodeSet(part))
            except NodeSetException as error:
                message = f"'{text[:60]}' is not a set of names: {error}"
                raise UsageError(message, hint="for example node[1-4]") from None
            if not names:
                raise UsageError(f"'{text[:60]}' names 0 nodes", hint=f"1 to {MOST_NAMES}")
            distinct.update(dict.fromkeys(names))
    return tuple(distinct)


def _check_plain(text: str) -> None:
    if len(text) > 10_000 or not text.isascii() or not text.isprintable():
        raise UsageError(f"'{text[:60]}' is not a set of names", hint="for example node[1-4]")
    if re.search(r"[@*?!&^]", text) or any(len(number) > 6 for number in re.findall(r"\d+-(\d+)", text)):
        # groups and wildcards belong to ClusterShell's own configuration
        raise UsageError(f"'{text[:60]}' is not a plain set of names", hint="for example node[1-4],login")


def _size(part: str) -> int:
    """Return how many names a set without commas outside of brackets has at most, before any is made."""
    size = 1
    for inside in re.findall(r"\[([^\]]*)\]", part):
        ranges = re.findall(r"(\d+)-(\d+)(?:/(\d+))?", inside)
        steps = sum(max(int(last) - int(first), 0) // max(int(step or 1), 1) for first, last, step in ranges)
        size *= steps + inside.count(",") + 1
    return size


def split_assignment(word: str) -> tuple[str, str | None]:
    """Return the property that ``word`` gives a value, and the value; raise :class:`UsageError` if it gives none.

    >>> split_assignment("mem=64"), split_assignment("model!")
    (('mem', '64'), ('model', None))
    """
    name, equals, text = (part.strip() for part in word.partition("="))
    if not equals:
        name = name[:-1].strip() if name.endswith("!") else ""
    if not name:
        raise UsageError(f"'{word[:60]}' gives no property a value", hint="write name=value, or name! for none")
    if name in _ELSEWHERE:
        raise UsageError(f"property '{name}' cannot be set with -p", hint=_ELSEWHERE[name])
    return name, text if equals else None


def expand(levels: tuple[PatternLevel, ...], highest: Mapping[str, int]) -> list[Row]:
    """Return a row for each innermost block; ``highest`` is the highest number in use for each numbered level."""
    rows: list[Row] = [{}]
    for level in levels:
        if level.names:
            rows = _named(level, rows)
        else:
            first = highest.get(level.name, 0) + 1
            if len(rows) * level.count > LARGEST:
                raise UsageError(f"the pattern makes over {LARGEST} resources", hint="add them in parts")
            rows = [
                {**row, level.name: first + place * level.count + index}
                for place, row in enumerate(rows)
                for index in range(level.count)
            ]
    return rows


def _named(level: PatternLevel, parents: list[Row]) -> list[Row]:
    share, rest = divmod(len(level.names), len(parents))
    if rest:
        raise UsageError(
            f"{len(level.names)} names of level '{level.name}' cannot be dealt out to {len(parents)} parents evenly",
            hint=f"give a multiple, or {level.name}={{N}} for N in each",
        )
    values = [int(name) if level.kind == "integer" else name for name in level.names]
    return [{**parents[place // share], level.name: value} for place, value in enumerate(values)]
