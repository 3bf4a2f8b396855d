"""The messages between a launcher and the server about an application: JSON objects, one a line.

Each message of a launcher is a class whose fields have checks; :func:`read` makes one from a line. A message of the
server is a dictionary; :func:`line_of` makes a line from it.
"""

from __future__ import annotations

import json
import math

from oarpy.wire.fields import each, flag, one_of, text
from oarpy.wire.frames import Malformed
from oarpy.wire.structure import Structure, field, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, ClassVar

    Tag = str | int

LARGEST_LINE = 65_536
"""Bytes of a line from a launcher, with its newline."""

WRONG_MOMENT, MALFORMED, AGAINST_RULES, UNKNOWN, NOT_ALLOWED, TRY_LATER = 1, 2, 3, 4, 5, 6
"""Codes of refusals."""

FIRM, REVOCABLE = "firm", "revocable"
END, KEEP = "end", "keep"

_LONGEST_TAG = 64
_BIG = 1 << 53
_MOST_CLUSTERS = 10_000


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not -_BIG < value < _BIG:
        raise ValueError
    return value  # type: ignore[no-any-return]


def _whole(least: int) -> Any:
    def check(value: Any) -> int:
        if type(value) is not int or not least <= value < _BIG:
            raise ValueError
        return value

    return check


def _tag(value: Any) -> Tag:
    if type(value) is str and len(value) <= _LONGEST_TAG:
        return value
    if type(value) is int and -_BIG < value < _BIG:
        return value
    raise ValueError


def _hosts(value: Any) -> dict[str, int]:
    if type(value) is not dict or len(value) > _MOST_CLUSTERS:
        raise TypeError
    if "" in value:
        raise ValueError
    at_least_one = _whole(1)
    return {cluster: at_least_one(hosts) for cluster, hosts in value.items()}


def _some_hosts(value: Any) -> dict[str, int]:
    if not (hosts := _hosts(value)):
        raise ValueError
    return hosts


def _some_names(value: Any) -> tuple[str, ...]:
    if not (names := each(text)(value)):
        raise ValueError
    return names


def _totals(value: Any) -> dict[str, float]:
    if type(value) is not dict:
        raise TypeError
    return {name: _number(total) for name, total in value.items()}


class _Partial(Structure):
    """An object that may leave out fields with a default."""

    @classmethod
    def complete(cls, values: dict[str, Any]) -> Any:
        """Return the value with these checked fields; raise :class:`Malformed` when some are missing."""
        for name in cls.CHECKS:
            if name not in values and name not in cls.DEFAULTS:
                raise Malformed(f"no {name}")
        return cls(**values)

    def entry(self) -> dict[str, Any]:
        """Return the object to send, without fields that are None."""
        return {name: value for name, value in super().entry().items() if value is not None}


class ClusterFilter(_Partial):
    """The clusters that an application is shown: those named, with hosts that meet a condition, and large enough."""

    clusters: tuple[str, ...] | None = field(each(text), default=None, write=lambda names: names and list(names))
    properties: str = field(text, default="")
    min_hosts: int = field(_whole(0), default=0)
    min_total: Mapping[str, float] = field(_totals, default={})


class LauncherMessage(_Partial):
    """A message of a launcher under its word."""

    WORD: ClassVar[str] = ""

    def __init_subclass__(cls, word: str = "") -> None:
        super().__init_subclass__()
        cls.WORD = word


class Subscribe(LauncherMessage, word="subscribe"):
    """Make a job that negotiates."""

    filter: ClusterFilter = field(ClusterFilter.read, default=ClusterFilter(), write=lambda value: value.entry())
    arguments: tuple[str, ...] = field(each(text), default=(), write=list)
    level: str = field(text, default="host")
    exact: bool = field(flag, default=False)
    if_lost: str = field(one_of(END, KEEP), default=END)


class Attach(LauncherMessage, word="attach"):
    """Go on with a job after a lost connection."""

    job: int = field(_whole(1))
    token: str = field(text, default="")
    serial: int | None = field(_whole(0), default=None)


class ListClustersInfo(LauncherMessage, word="listClustersInfo"):
    """Ask for facts about clusters, all that are shown if none is named."""

    clusters: tuple[str, ...] | None = field(each(text), default=None)


class RequestHosts(LauncherMessage, word="request"):
    """Ask for hosts; this replaces the request before."""

    tag: Tag = field(_tag)
    hosts: Mapping[str, int] = field(_some_hosts)
    walltime: float = field(_number)
    serial: int | None = field(_whole(1), default=None)


class KeepRequest(LauncherMessage, word="keep"):
    """Say that the view was seen and the request stays."""

    serial: int = field(_whole(1))


class GiveBack(LauncherMessage, word="done"):
    """Give all hosts back."""


class ExtendHosts(LauncherMessage, word="extend"):
    """Ask for more hosts while running; no hosts withdraw the earlier request."""

    tag: Tag = field(_tag)
    hosts: Mapping[str, int] = field(_hosts)
    kind: str = field(one_of(FIRM, REVOCABLE))


class ReleaseHosts(LauncherMessage, word="release"):
    """Give hosts back while running."""

    names: tuple[str, ...] = field(_some_names)


class SignAsked(LauncherMessage, word="ping"):
    """Ask for a sign of life."""


class SignGiven(LauncherMessage, word="pong"):
    """Give the sign of life that was asked for."""


MESSAGES: dict[str, type[LauncherMessage]] = {
    kind.WORD: kind
    for kind in (
        Subscribe,
        Attach,
        ListClustersInfo,
        RequestHosts,
        KeepRequest,
        GiveBack,
        ExtendHosts,
        ReleaseHosts,
        SignAsked,
        SignGiven,
    )
}
"""By their words."""


class Unreadable(Malformed):
    """A line that is no message; ``word`` and ``tag`` are the parts that could be read."""

    def __init__(self, reason: str, word: str | None = None, tag: Tag | None = None) -> None:
        super().__init__(reason)
        self.word, self.tag = word, tag


def read(line: bytes) -> LauncherMessage:
    """Return the message of a line without its newline; raise :class:`Unreadable`."""
    try:
        entry = json.loads(
            line.decode("utf-8"), object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"no I-JSON: {str(error)[:200]}") from None
    if type(entry) is not dict:
        raise Unreadable('no JSON object: write {"message": WORD, ...}')
    word = entry.pop("message", None)
    kind = MESSAGES.get(word) if type(word) is str else None
    if kind is None:
        raise Unreadable(f"no message {shown(word)}: one of {', '.join(MESSAGES)}")
    try:
        return kind.read(entry)
    except Malformed as error:
        raise Unreadable(f"{word}: {error}", word, _tag_of(entry)) from None


def line_of(message: Mapping[str, object]) -> bytes:
    """Return a message of the server as a line."""
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def refused(of: str | None, code: int, reason: str, tag: Tag | None = None) -> dict[str, object]:
    """Return a refusal; ``of`` is the word of the refused message, None if it could not be read."""
    answer: dict[str, object] = {"message": "refused", "of": of}
    if tag is not None:
        answer["tag"] = tag
    return {**answer, "code": code, "reason": reason}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object with distinct keys; its texts must be fit to be stored and shown."""
    entries: dict[str, Any] = {}
    for name, value in pairs:
        if name in entries:
            raise ValueError(f"the key {shown(name)} is there twice")
        _check_texts(name)
        _check_texts(value)
        entries[name] = value
    return entries


def _check_texts(value: object) -> None:
    if type(value) is str:
        if not value.isascii() and any(map(_is_unfit, value)):
            raise ValueError("a text holds a surrogate or what is no character")
        if any(letter < " " or "\x7f" <= letter <= "\x9f" for letter in value):
            raise ValueError("a text holds a control character")
    elif type(value) is list:
        for item in value:
            _check_texts(item)


def _is_unfit(letter: str) -> bool:
    code = ord(letter)
    return 0xD800 <= code <= 0xDFFF or 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:40]} is too large")
    return number


def _tag_of(entry: dict[str, Any]) -> Tag | None:
    try:
        return _tag(entry.get("tag"))
    except ValueError:
        return None
