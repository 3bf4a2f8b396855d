"""Values given to properties on the command line: ``mem=64``, ``model=x``, ``model!`` (no value)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from oarpy.client.past.periods import parse_date
from oarpy.model.errors import NotFound, UsageError
from oarpy.model.resource_pattern import split_assignment
from oarpy.store.platform.properties import Property
from oarpy.store.platform.resources import PropertyValue

_TRUE = {"yes", "y", "true", "t", "on", "1"}
_FALSE = {"no", "n", "false", "f", "off", "0"}
_INTEGER_LIMIT = 2**31
_NEVER_NONE = {"type", "drain", "besteffort", "deploy"}
_WORDS = {
    "type": re.compile(r"[A-Za-z0-9_.-]{1,63}", re.ASCII),
    "network_address": re.compile(r"[A-Za-z0-9_.:-]{1,253}", re.ASCII),
}


def parse_assignments(words: Sequence[str], properties: Mapping[str, Property]) -> dict[str, PropertyValue]:
    """Return the values assigned by ``name=value`` and ``name!``, of the types of ``properties``.

    Raises :class:`NotFound` for a property that does not exist, :class:`UsageError` for a value that does not fit.
    """
    values: dict[str, PropertyValue] = {}
    for word in words:
        name, text = split_assignment(word)
        if name not in properties:
            raise NotFound(f"there is no property '{name[:60]}'", hint="oarproperty -l lists them, -a adds one")
        if name in values:
            raise UsageError(f"property '{name}' is given twice")
        if text is None and name in _NEVER_NONE:
            raise UsageError(f"property '{name}' cannot be without a value", hint=f"write {name}=VALUE")
        values[name] = None if text is None else parse_value(text, properties[name].kind, name)
    return values


def parse_value(text: str, kind: str, name: str) -> PropertyValue:
    """Return ``text`` as a value of a property of ``kind``; raise :class:`UsageError` naming the property."""
    if kind == "text":
        if not text.isprintable() or len(text) > 1000:
            raise UsageError(f"value of property '{name}' is not one line of text", hint="at most 1000 characters")
        if name in _WORDS and not _WORDS[name].fullmatch(text):
            raise UsageError(
                f"'{text[:60]}' is no value of property '{name}'", hint="letters, digits, _ . - and no blank"
            )
        return text
    if kind == "boolean":
        if text.lower() not in _TRUE | _FALSE:
            raise UsageError(f"'{text[:60]}' is no value of property '{name}'", hint="YES or NO")
        return text.lower() in _TRUE
    if kind == "timestamptz":
        return parse_date(text)
    digits = text.removeprefix("-")
    if (
        not (digits.isascii() and digits.isdigit())
        or len(digits) > 10
        or not -_INTEGER_LIMIT <= int(text) < _INTEGER_LIMIT
    ):
        raise UsageError(f"'{text[:60]}' is no value of property '{name}'", hint="a whole number of 32 bits")
    return int(text)
