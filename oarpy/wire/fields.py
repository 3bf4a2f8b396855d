"""The values that a field may hold: functions that turn JSON into a value, or raise ``ValueError`` or ``TypeError``.

Neither side trusts the other. A node's values go into the database, which must be able to hold them; the server's
values name files and programs on nodes.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Value = TypeVar("Value")

_BIG = 1 << 53
"""Up to here every integer is a number of JSON, in any reader."""
_LATEST = 253_402_300_800.0
_LONGEST_TEXT = 4096
_LONGEST_TOKEN = 256
_TOKEN = re.compile(r"[0-9a-f]{32}", re.ASCII)
_WORD = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


def whole(least: int = 0, most: int = _BIG) -> Callable[[Any], int]:
    """An integer within bounds."""

    def check(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError
        return value

    return check


count = whole(0, (1 << 31) - 1)
"""A number that a column of the database holds."""
signal_number = whole(1, 64)
bytes_used = whole()


def flag(value: Any) -> bool:
    """True or false."""
    if type(value) is not bool:
        raise TypeError
    return value


def seconds(value: Any) -> float:
    """A duration or, by the clock of a node, an instant; whole or not."""
    if type(value) not in (int, float) or not 0 <= value < _BIG:
        raise ValueError
    return value  # type: ignore[no-any-return]


def quantity(value: Any) -> float:
    """A finite number, 0 or above."""
    if type(value) not in (int, float) or not 0 <= value < _BIG:
        raise ValueError
    return float(value)


def instant(value: Any) -> float:
    """Seconds since the epoch, before the year 10000."""
    if type(value) not in (int, float) or not 0 <= value < _LATEST:
        raise ValueError
    return float(value)


def text(value: Any) -> str:
    """A text that a program can be given: no NUL, and surrogates only for bytes that are no UTF-8."""
    if type(value) is not str or "\0" in value:
        raise ValueError
    if not value.isascii():
        value.encode("utf-8", "surrogateescape")
    return value


def name(value: Any) -> str:
    """A text that is not empty."""
    if not text(value):
        raise ValueError
    return value  # type: ignore[no-any-return]


def remark(value: Any) -> str:
    """Return a text for people, cut and without characters that the database cannot hold."""
    if type(value) is not str:
        raise TypeError
    return value[:_LONGEST_TEXT].replace("\0", "").encode(errors="replace").decode()


def short(value: Any) -> str:
    """Return a text that will be sent back as it is."""
    if type(value) is not str or len(value) > _LONGEST_TOKEN:
        raise ValueError
    return value


def is_token(value: object) -> bool:
    """Tell whether the value may be a token, under which a command on a node listens."""
    return isinstance(value, str) and _TOKEN.fullmatch(value) is not None


def token(value: Any) -> str:
    """Return a token, under which a command on a node listens."""
    if not is_token(value):
        raise ValueError
    return value  # type: ignore[no-any-return]


def one_of(*words: str) -> Callable[[Any], str]:
    """One of these words."""

    def check(value: Any) -> str:
        if type(value) is not str or value not in words:
            raise ValueError
        return value

    return check


def event_or(*words: str) -> Callable[[Any], str]:
    """One of these words, or one in capitals that may be the type of an event."""

    def check(value: Any) -> str:
        if type(value) is not str or (value not in words and not _WORD.fullmatch(value)):
            raise ValueError
        return value

    return check


def optional(check: Callable[[Any], Value]) -> Callable[[Any], Value | None]:
    """Return a check that also takes null, beside the values of ``check``."""
    return lambda value: None if value is None else check(value)


def each(check: Callable[[Any], Value]) -> Callable[[Any], tuple[Value, ...]]:
    """Return a check for a list, whose entries ``check`` takes."""

    def check_all(values: Any) -> tuple[Value, ...]:
        if type(values) is not list:
            raise TypeError
        return tuple(map(check, values))

    return check_all


def lines(value: Any) -> tuple[str, ...]:
    """A list of texts that can be written to a file in UTF-8."""
    if type(value) is not list:
        raise TypeError
    together = "".join(value)
    if "\0" in together:
        raise ValueError
    together.encode()
    return tuple(value)


def texts(value: Any) -> dict[str, str]:
    """Texts by name."""
    if type(value) is not dict:
        raise TypeError
    return {text(key): text(content) for key, content in value.items()}


def environ(value: Any) -> dict[str, str]:
    """Variables of an environment."""
    if type(value) is not dict:
        raise TypeError
    if not _are_plain(value):
        for variable, content in value.items():
            text(content)
            if "=" in name(variable):
                raise ValueError
    return value


def _are_plain(value: dict[str, Any]) -> bool:
    """Whether variables are all of plain characters: one look at all of them tells, as nearly always."""
    names, contents = "".join(value), "".join(value.values())
    plain = names.isascii() and contents.isascii() and "\0" not in names and "\0" not in contents
    return plain and "=" not in names and "" not in value
