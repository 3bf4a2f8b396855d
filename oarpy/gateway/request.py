"""The one message that a caller begins with, decoded strictly: whatever is not exactly a request is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from oarpy.frontend.frames import VERSION, Malformed, pack_message, read_message

_MOST_COLUMNS = 10_000
_KEYS = frozenset({"version", "command", "arguments", "directory", "environment", "terminal"})
_TERMINAL_KEYS = frozenset({"input", "output", "errors", "columns"})

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Terminal:
    """Which of the caller's three standard streams are terminals, and how many characters a line has."""

    input: bool
    output: bool
    errors: bool
    columns: int


@dataclass(frozen=True, slots=True)
class Request:
    """A command as its caller typed it. ``directory`` is None when the current directory is gone."""

    command: str
    arguments: tuple[str, ...]
    directory: str | None
    environment: Mapping[str, str]
    terminal: Terminal


def refusal(reason: str, status: int) -> bytes:
    """Return the frame that answers a request that is not run: one line for the user and the exit status."""
    return pack_message({"refused": reason, "exit": status})


def decode(payload: bytes) -> Request:
    """Return the request; raise :class:`Malformed` saying what is wrong with it."""
    message = read_message(payload)
    if type(message.get("version")) is not int or message["version"] != VERSION:
        raise Malformed(f"this gateway speaks version {VERSION} of the protocol")
    _check_keys(message, _KEYS)
    directory = message["directory"]
    arguments: list[object] = _of(message["arguments"], list)
    environment: dict[object, object] = _of(message["environment"], dict)
    return Request(
        command=_text(message["command"]),
        arguments=tuple(map(_text, arguments)),
        directory=None if directory is None else _text(directory),
        environment={_text(name): _text(value) for name, value in environment.items()},
        terminal=_terminal(_of(message["terminal"], dict)),
    )


def _terminal(message: Mapping[str, object]) -> Terminal:
    _check_keys(message, _TERMINAL_KEYS)
    columns = _of(message["columns"], int)
    if not 1 <= columns <= _MOST_COLUMNS:
        raise Malformed("columns out of range")
    return Terminal(_of(message["input"], bool), _of(message["output"], bool), _of(message["errors"], bool), columns)


def _check_keys(message: Mapping[str, object], keys: frozenset[str]) -> None:
    if message.keys() != keys:
        raise Malformed("unknown or missing keys")


def _of(value: object, kind: Callable[..., Value]) -> Value:
    if type(value) is not kind:
        raise Malformed(f"a value of the wrong type, {type(value).__name__}")
    return value  # type: ignore[return-value]


def _text(value: object) -> str:
    """Return ``value`` if a program can be given it: no NUL, and surrogates only for bytes that are no UTF-8."""
    text: str = _of(value, str)
    if "\0" in text:
        raise Malformed("a NUL character")
    if not text.isascii():
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise Malformed("text that is none") from None
    return text
