"""Conversion of JSON or TOML values from outside into typed ones. Errors name the place and the expected kind.

Kinds are those of :mod:`msgspec`: structs, dataclasses, literals, lists, plain values and unions of them. A kind with
limits has a ``description`` in its ``Meta``, which errors use as its name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Final, NoReturn, TypeVar

import msgspec
from msgspec import Meta, inspect

from oarpy.model.errors import UsageError
from oarpy.model.plugins import names

Kind = TypeVar("Kind")
Path = tuple[str | int, ...]
"""The way to a value: keys of objects and places in lists."""

LARGEST: Final = 2**53
"""Largest number accepted, in either direction: whole numbers stay exact up to here."""
Whole = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)]
Number = Whole | Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Word = Annotated[str, Meta(min_length=1)]

_TEXT = re.compile(r"(.*?)(?: - at (`key` in )?`\$(.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_FIELD = re.compile(r"Object (missing required|contains unknown) field `(.*)`", re.DOTALL)
_LONGEST_VALUE = 60
_LONGEST_NUMBER = 40
_OBJECTS = inspect.StructType | inspect.DataclassType
_LISTS = inspect.ListType | inspect.VarTupleType
_PLAIN_NOUNS = {
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.BoolType: "true or false",
    inspect.DateTimeType: "a date",
}
_CONTAINERS = _OBJECTS | _LISTS | inspect.TupleType | inspect.NamedTupleType | inspect.DictType


class Misfit(Exception):
    """The value at ``path`` of ``document`` has the wrong kind."""

    def __init__(self, document: Any, path: Path, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.document, self.path, self.problem, self.hint = document, path, problem, hint

    def error(self, owner: str) -> UsageError:
        """Return the error that names ``owner``, the way and the last key: ``owner: jobs 2: key 'id': missing``."""
        path = list(self.path)
        while path and isinstance(path[-1], int):
            path.pop()
        names = [owner]
        for step in path[:-1]:
            if isinstance(step, str):
                names.append(step)
            else:
                names[-1] += f" {step + 1}"
        return UsageError(": ".join([*names, *(f"key '{key}'" for key in path[-1:]), self.problem]), hint=self.hint)


def from_json(text: str, kind: type[Kind]) -> Kind:
    """Read JSON whose objects have each key once.

    Raises :class:`UsageError` for invalid JSON and :class:`Misfit` for a value of the wrong kind.
    """
    try:
        try:
            value = msgspec.json.decode(text, type=kind)
        except msgspec.ValidationError as error:
            raise _misfit(error, msgspec.json.decode(text), kind) from None
        json.loads(text, parse_float=len, parse_int=len, object_pairs_hook=_object_of_single_keys)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON: {error}") from None
    return value


def from_values(values: object, kind: type[Kind], *, strict: bool = True) -> Kind:
    """Convert the result of a reader of JSON or TOML; unless ``strict``, texts may stand for numbers and truth values.

    Raises :class:`Misfit`.
    """
    try:
        return msgspec.convert(values, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise _misfit(error, values, kind) from None


def check_named(owner: str, key: str, value: str, known: Sequence[str], group: str) -> None:
    """Raise :class:`UsageError` for a name that is neither known nor that of a plug-in of a group."""
    if value not in known and value not in names(group):
        every = ", ".join((*sorted(known), *names(group)))
        refuse(owner, key, value, f"is not one of {every}", "use one of these, or install its plug-in")


def refuse(owner: str, key: str, value: object, problem: str, advice: str) -> NoReturn:
    """Raise :class:`UsageError` for a failed check beyond types: owner and key, value, problem, advice."""
    raise UsageError(f"{owner}: key '{key}': {shown(value)} {problem}", hint=advice)


class Exact(Fraction):
    """A number of a file, exactly as it is written there."""

    def __repr__(self) -> str:
        return str(self.numerator) if self.denominator == 1 else str(Decimal(self.numerator) / self.denominator)


def from_exact_json(text: str, kind: type[Kind], *, pointed: bool = True) -> Kind:
    """Read JSON whose numbers of kind :class:`Exact` are exact, and whose objects have each key once.

    It raises the same errors as :func:`from_json`. An absurdly long, large or small number is refused. Unless
    ``pointed``, a whole number must be written without a point.
    """
    try:
        document = json.loads(
            text,
            parse_float=_exact_or_whole if pointed else _exact,
            parse_constant=_refuse_number,
            object_pairs_hook=_object_of_single_keys,
        )
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON: {error}") from None
    return from_exact_values(document, kind)


def from_exact_values(values: object, kind: type[Kind]) -> Kind:
    """Convert the result of :func:`from_exact_json`. Raises :class:`Misfit`."""
    try:
        return msgspec.convert(values, kind, dec_hook=_as_exact)
    except msgspec.ValidationError as error:
        raise _misfit(error, values, kind) from None


def _exact(text: str) -> Exact:
    number = Decimal(text)
    if len(text) > _LONGEST_NUMBER or abs(number.adjusted()) > _LONGEST_NUMBER:
        _refuse_number(text)
    return Exact(number)


def _exact_or_whole(text: str) -> Exact | int:
    number = _exact(text)
    return number.numerator if number.denominator == 1 else number


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"the number {text[:_LONGEST_VALUE]} cannot be meant")


def _object_of_single_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        repeated = next(key for at, (key, _) in enumerate(pairs) if key in dict(pairs[:at]))
        raise ValueError(f"the key {shown(repeated)} is there twice in one object")
    return content


def _as_exact(_kind: type, value: Any) -> Exact:
    if isinstance(value, Exact) or type(value) is int:
        return Exact(value)
    raise TypeError("not a number")


def shown(value: object) -> str:
    """Return a plain value as Python writes it, of others the kind; at most 60 characters, then three dots."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list" if value else "an empty list"
    text = "a value in it" if value is ... else repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "..."


def _misfit(error: msgspec.ValidationError, document: Any, kind: object) -> Misfit:
    """Translate ``error`` into a :class:`Misfit`.

    Its text has the path and the field, ``document`` and ``kind`` the rest. The path does not name the keys of a
    dictionary: values behind such a key are not known, and shown as ``...``.
    """
    match = _TEXT.fullmatch(str(error))
    assert match is not None
    path: list[str | int] = []
    values, expected = document, inspect.type_info(kind)
    for key, place in _STEP.findall(match[3] or ""):
        step = key or (... if place == "..." else int(place))
        expected = _inside(expected, step)
        values = ... if step is ... or values is ... else values[step]
        path += [] if step is ... else [step]
    if match[2] and isinstance(expected, inspect.DictType):
        return Misfit(document, tuple(path), f"a key in it is not {_noun(expected.key_type)}")
    if field := _FIELD.fullmatch(match[1]):
        if field[1] == "missing required":
            return Misfit(document, (*path, field[2]), "missing")
        return Misfit(document, (*path, field[2]), "unknown key", f"known: {', '.join(_keys(expected))}")
    return Misfit(document, tuple(path), f"{shown(values)} is not {_noun(expected)}")


def _keys(kind: inspect.Type) -> list[str]:
    """Return the keys that an object may have."""
    if isinstance(kind, inspect.UnionType):
        return [key for member in kind.types for key in _keys(member)]
    return sorted(field.encode_name for field in kind.fields) if isinstance(kind, _OBJECTS) else []


def _inside(kind: inspect.Type, step: Any) -> inspect.Type:
    """Return the kind of the value behind a key, a place or, as ``...``, an unnamed key."""
    if isinstance(kind, inspect.UnionType):
        return next(_inside(member, step) for member in kind.types if isinstance(member, _CONTAINERS))
    if isinstance(kind, inspect.NamedTupleType):
        return kind.fields[int(step)].type
    if isinstance(kind, _OBJECTS):
        return next(field.type for field in kind.fields if field.encode_name == step)
    if isinstance(kind, inspect.DictType):
        return kind.value_type
    if isinstance(kind, inspect.TupleType):
        return kind.item_types[int(step)]
    assert isinstance(kind, _LISTS)
    return kind.item_type


def _noun(kind: inspect.Type) -> str:
    """Return the noun that errors use for a kind."""
    match kind:
        case inspect.Metadata(extra_json_schema={"description": str(description)}):
            return description
        case inspect.Metadata():
            return _noun(kind.type)
        case inspect.UnionType():
            nouns = [_noun(member) for member in kind.types if not isinstance(member, inspect.NoneType)]
            return " or ".join(noun for noun in nouns if noun != "a whole number" or "a number" not in nouns)
        case inspect.LiteralType():
            return f"one of {', '.join(map(str, kind.values))}"
        case inspect.StrType():
            return "a word" if kind.min_length else "a string"
        case inspect.IntType() | inspect.FloatType() | inspect.BoolType() | inspect.DateTimeType():
            return _PLAIN_NOUNS[type(kind)]
        case inspect.ListType() | inspect.VarTupleType():
            return "a list with at least one entry" if kind.min_length else "a list"
        case inspect.TupleType():
            return f"a list of {len(kind.item_types)} entries"
        case inspect.NamedTupleType():
            return f"a list [{', '.join(field.name for field in kind.fields)}]"
        case inspect.CustomType(cls=cls) if issubclass(cls, Exact):
            return "a number"
        case _:
            return "an object"
