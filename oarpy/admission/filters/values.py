"""Values of a property filter: their kinds, how literals become values, how two values compare.

With declared column types the rules are PostgreSQL's. Rows read from a file carry no types. There a number and a text
compare as numbers when the text reads as one, else as texts; PostgreSQL would refuse the comparison.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from oarpy.model.dates import read_date, read_instant
from oarpy.model.durations import parse_duration
from oarpy.model.errors import UsageError

_TYPE_NAMES = {
    "integer": "int int2 int4 int8 smallint integer bigint",
    "number": "numeric decimal real float float4 float8 double",
    "boolean": "bool boolean",
    "timestamp": "timestamptz timestamp date",
    "interval": "interval",
    "text": "text varchar char character bpchar name str string",
}


class Kind(StrEnum):
    """The known type of an expression when the filter is compiled."""

    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"
    INTERVAL = "interval"
    NULL = "NULL"
    LITERAL = "quoted literal"
    """A quoted literal, which takes the type of the other operand, as in PostgreSQL."""
    ANY = "value"
    """A column whose type is not declared."""


Value = int | float | Decimal | str | bool | datetime | timedelta | None

_KINDS = {name: Kind(kind) for kind, names in _TYPE_NAMES.items() for name in names.split()}
_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")
_NUMBER = re.compile(r"\s*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?\s*")
_TRUE = {word[:size] for word in ("true", "yes") for size in range(1, len(word) + 1)} | {"on", "1"}
_FALSE = {word[:size] for word in ("false", "no") for size in range(1, len(word) + 1)} | {"of", "off", "0"}

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def kind_of_type(type_name: str) -> tuple[Kind, bool]:
    """Return the kind of a column declared as ``type_name`` (an SQL type), and whether SQL must cast it to text.

    Types without rules of their own (enums, inet, ...) are used through their text.
    """
    word = re.split(r"[ (]", type_name.strip().lower(), maxsplit=1)[0]
    kind = _KINDS.get(word)
    return (Kind.TEXT, True) if kind is None else (kind, False)


def read_boolean(text: str) -> bool | None:
    """Read a truth value spelled as PostgreSQL accepts it (``yes``, ``t``, ``0``...); None when it is not one."""
    word = text.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


def literal_as(text: str, kind: Kind, now: datetime | None = None) -> Value:
    """Return the value of the quoted literal ``text`` for a column of ``kind``; raise :class:`UsageError` if none.

    With ``now``, dates may count from there: ``-1h``, ``yesterday``.
    """
    value: Value = text
    if kind is Kind.INTEGER:
        value = int(text) if len(text) < 40 and _INTEGER.fullmatch(text) else None
    elif kind is Kind.NUMBER:
        value = Decimal(text.strip()) if len(text) < 40 and _NUMBER.fullmatch(text) else None
    elif kind is Kind.BOOLEAN:
        value = read_boolean(text)
    elif kind is Kind.TIMESTAMP:
        return _timestamp(text, now)
    elif kind is Kind.INTERVAL:
        value = timedelta(seconds=parse_duration(text))
    if value is None:
        raise UsageError(f"'{text[:60]}' is not a value of type {kind.value}")
    return value


def _timestamp(text: str, now: datetime | None) -> datetime:
    """Read an instant. Raises :class:`UsageError` when it is none."""
    if now is not None:
        return read_date(text, now)
    try:
        return read_instant(text)
    except ValueError:
        raise UsageError(
            f"'{text[:60]}' is not a value of type timestamp", hint="write YYYY-MM-DD hh:mm:ss or epoch seconds"
        ) from None


def compare_values(symbol: str, left: Value, right: Value) -> bool | None:
    """Apply a comparison operator; None (unknown) when a side is NULL. Texts are ordered by code point."""
    if left is None or right is None:
        return None
    compare = COMPARISONS[symbol]
    if type(left) is type(right):
        return compare(left, right)
    return compare(*_alike(left, right))


def _alike(left: Value, right: Value) -> tuple[object, object]:
    """Bring two values of different types to one type."""
    if isinstance(left, bool) or isinstance(right, bool):
        first, second = _as_boolean(left), _as_boolean(right)
        if first is not None and second is not None:
            return first, second
    first_number, second_number = as_number(left), as_number(right)
    if first_number is None or second_number is None:
        return as_text(left), as_text(right)
    if isinstance(first_number, float) or isinstance(second_number, float):
        return float(first_number), float(second_number)
    return first_number, second_number


def _as_boolean(value: Value) -> bool | None:
    if isinstance(value, str):
        return read_boolean(value)
    return bool(value) if isinstance(value, int) else None


def as_number(value: Value) -> int | float | Decimal | None:
    """Return a number, or the number a text reads as; None for anything else."""
    if isinstance(value, str):
        if len(value) > 40 or not _NUMBER.fullmatch(value):
            return None
        return int(value) if _INTEGER.fullmatch(value) else Decimal(value.strip())
    return value if isinstance(value, int | float | Decimal) else None


def as_text(value: Value) -> str:
    """Return the text PostgreSQL would show."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def truth(value: Value) -> bool | None:
    """Read a value of an undeclared column where a condition is expected."""
    if isinstance(value, bool) or value is None:
        return value
    return read_boolean(value) if isinstance(value, str) else bool(value)


def calculate(symbol: str, left: Value, right: Value) -> Value:
    """Apply ``+ - * / %`` with PostgreSQL's whole-number division (towards zero); None if a side is no number.

    The compiler has made sure that a divisor is a literal other than 0.
    """
    a, b = as_number(left), as_number(right)
    if a is None or b is None:
        return None
    if not (isinstance(a, int) and isinstance(b, int)):
        return _calculate_fractions(symbol, float(a), float(b))
    if symbol in "/%":
        quotient, remainder = divmod(abs(a), abs(b))
        negative = (a < 0) != (b < 0) if symbol == "/" else a < 0
        size = quotient if symbol == "/" else remainder
        return -size if negative else size
    return a + b if symbol == "+" else a - b if symbol == "-" else a * b


def _calculate_fractions(symbol: str, a: float, b: float) -> float | None:
    if symbol == "%":
        return None
    return a + b if symbol == "+" else a - b if symbol == "-" else a * b if symbol == "*" else a / b


ONE, MANY = object(), object()
"""The wildcards of a LIKE pattern: ``_`` and ``%``."""


def read_pattern(pattern: str) -> list[object]:
    """Split a LIKE pattern into letters and wildcards; ``\\`` makes the next letter plain."""
    parts: list[object] = []
    letters = iter(pattern)
    for letter in letters:
        if letter == "\\":
            plain = next(letters, None)
            if plain is None:
                raise UsageError(f"LIKE pattern '{pattern[:60]}' ends with a backslash", hint="double it")
            parts.append(plain)
        else:
            parts.append(MANY if letter == "%" else ONE if letter == "_" else letter)
    return parts


def like(text: str, parts: list[object]) -> bool:
    """Tell whether the whole of ``text`` matches; a greedy scan that remembers the last ``%``, never exponential."""
    place = part = 0
    retry_part, retry_place = -1, 0
    while place < len(text):
        wanted = parts[part] if part < len(parts) else None
        if wanted is MANY:
            retry_part, retry_place = part, place
            part += 1
        elif wanted is ONE or wanted == text[place]:
            place += 1
            part += 1
        elif retry_part >= 0:
            retry_place += 1
            part, place = retry_part + 1, retry_place
        else:
            return False
    return all(rest is MANY for rest in parts[part:])
