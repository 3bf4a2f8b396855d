"""Parts on named clusters as oargridsub's users write them: ``a:rdef="/nodes=2",b:rdef="/core=4":prop="mem > 4"``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from oarpy.model.errors import UsageError
from oarpy.model.submission_checks import short

MOST_PARTS = 1000
"""Parts of one job."""
_LONGEST = 100_000
_CLUSTER = re.compile(r"\s*(\w+)\s*", re.ASCII)
_WORD = re.compile(r":\s*(\w+)=", re.ASCII)
_END = re.compile(r":\s*(?:rdef|prop|type|name)=|,\s*\w+\s*:\s*\w+=|,?\s*$", re.ASCII)
"""The end of a value without quotes around it, such as a value whose quotes a shell has taken away."""
_WORDS = frozenset({"rdef", "prop", "type", "name"})
_FORM = 'for example a:rdef="/nodes=2",b:rdef="/core=4":prop="mem > 4"'


@dataclass(frozen=True, slots=True)
class NamedPart:
    """A part on ``cluster``: its resources (``rdef``), filter (``prop``), type and name, as they were written."""

    cluster: str
    rdef: str
    prop: str = ""
    type: str = ""
    name: str = ""


def read_parts(text: str) -> tuple[NamedPart, ...]:
    """Return the parts in a text; raise :class:`UsageError` that names the error.

    >>> read_parts('a:rdef="/nodes=2",b:rdef=/core=4:prop=mem > 4')[1]
    NamedPart(cluster='b', rdef='/core=4', prop='mem > 4', type='', name='')
    """
    if len(text) > _LONGEST:
        raise UsageError(f"parts of {len(text)} characters", hint=f"at most {_LONGEST}")
    parts: list[NamedPart] = []
    place = 0
    while not parts or place < len(text):
        part, place = _part(text, place)
        parts.append(part)
        if text[place:].strip() in ("", ","):
            break
        if text[place] != ",":
            raise UsageError(f"'{short(text[place:])}' behind a part", hint="a comma comes between parts")
        place += 1
    if len(parts) > MOST_PARTS:
        raise UsageError(f"{len(parts)} parts", hint=f"at most {MOST_PARTS}")
    return tuple(parts)


def _part(text: str, place: int) -> tuple[NamedPart, int]:
    """Return the part that begins at a place, and where it ends."""
    match = _CLUSTER.match(text, place)
    if match is None:
        raise UsageError(f"'{short(text[place:].strip())}' does not begin with the name of a cluster", hint=_FORM)
    cluster, place = match[1], match.end()
    values: dict[str, str] = {}
    while word := _WORD.match(text, place):
        if word[1] not in _WORDS:
            raise UsageError(f"':{short(word[1])}=' of the part on '{short(cluster)}'", hint="rdef, prop, type or name")
        if word[1] in values:
            raise UsageError(f"':{word[1]}=' twice in the part on '{short(cluster)}'", hint="write it once")
        values[word[1]], place = _value(text, word.end())
    if not values.get("rdef"):
        raise UsageError(f"the part on '{short(cluster)}' says no resources", hint=_FORM)
    return NamedPart(cluster, **values), place


def _value(text: str, place: int) -> tuple[str, int]:
    """Return a value and where it ends; quotes around it are left out."""
    quote = text[place : place + 1]
    if quote in ('"', "'") and quote:
        end = text.find(quote, place + 1)
        if end < 0:
            raise UsageError(f"no end of the quotes at '{short(text[place:])}'", hint=_FORM)
        following = text[end + 1 :].lstrip()
        if following[:1] in ("", ",", ":"):
            return text[place + 1 : end].strip(), len(text) - len(following)
    match = _END.search(text, place)
    assert match is not None
    return text[place : match.start()].strip(), match.start()
