"""Calls and answers as lines of JSON, each strictly checked: fields, kinds and limits.

A line in is ``{"call": "cancel", "key": "k1", "part": "7.1", "reason": ""}``. A line out has the same key, and either
``answer`` or ``error`` with ``code``, ``message``, ``hint`` and ``status``, an exit status.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from oarpy.grid.calls.parts import (
    EVENT_KINDS,
    AnyEvent,
    BagOffers,
    ClusterDescription,
    ClusterEvent,
    EvictableJob,
    FreeSlot,
    KnownPart,
    PreparedPart,
    ProfiledType,
    RatedType,
)
from oarpy.grid.calls.table import (
    Amend,
    AnyCall,
    Begin,
    Call,
    Cancel,
    Describe,
    Estimate,
    EstimateInTurn,
    Events,
    Evict,
    Evictable,
    Idle,
    Offers,
    Prepare,
    PrepareAll,
    Profiled,
    Rates,
    Slots,
    Waiting,
)
from oarpy.model.errors import UsageError


class DoorError(Struct, frozen=True):
    """Why a call was not done; ``status`` as the exit status of a command."""

    code: str
    message: str
    hint: str = ""
    status: int = 1


class DoorReply(Struct, frozen=True, omit_defaults=True):
    """The line that answers a call; without ``error`` there is an ``answer``, which may be null."""

    key: str
    answer: msgspec.Raw | UnsetType = UNSET
    error: DoorError | UnsetType = UNSET


class PartAnswer(Struct, frozen=True, omit_defaults=True):
    """The answer for one of many parts: ``prepared``, or why it was ``refused``."""

    prepared: PreparedPart | None = None
    refused: DoorError | None = None


ANSWERS: dict[type[Call[Any]], Any] = {
    Describe: ClusterDescription,
    Idle: int,
    Slots: list[FreeSlot],
    Offers: BagOffers,
    Rates: list[RatedType],
    Profiled: list[ProfiledType],
    Waiting: list[KnownPart],
    Estimate: list[float | None],
    EstimateInTurn: list[float | None],
    Evictable: list[EvictableJob],
    Events: list[AnyEvent],
    Prepare: PreparedPart,
    PrepareAll: list[PartAnswer],
    Amend: PreparedPart,
    Begin: PreparedPart,
    Cancel: bool | None,
    Evict: list[str],
}
"""Answers as they are written, the others null. An estimate of null is never; a cancel is null unless it is false."""

_CALLS = msgspec.json.Decoder(AnyCall)
_REPLIES = msgspec.json.Decoder(DoorReply)
_ENCODER = msgspec.json.Encoder()


class _Keyed(Struct):
    key: str = ""


class _EventHead(Struct):
    number: int
    at: float
    kind: str


_KEYS = msgspec.json.Decoder(_Keyed)
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
_HEADS = msgspec.json.Decoder(_EventHead)
_EVENTS = msgspec.json.Decoder(AnyEvent)


def _named_once(pairs: list[tuple[str, object]]) -> None:
    """Raise :class:`ValueError` for an object with a key twice: readers differ in the value that they take."""
    if len(dict(pairs)) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"Object has the key `{next(name for name in names if names.count(name) > 1)}` twice")


def read_call(line: bytes) -> AnyCall:
    """Read a line. Raises :class:`UsageError` for a line that is not exactly a call."""
    try:
        call: AnyCall = _CALLS.decode(line)
        if not call.key:
            raise ValueError("Object missing required field `key`")
        json.loads(line, object_pairs_hook=_named_once)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"no call: {str(error)[:300]}", hint="docs/guides/grid-door.md has the calls") from None
    return call


def key_of(line: bytes) -> str:
    """Return the key of a line that is no call, empty where it has none."""
    try:
        return _KEYS.decode(line).key[:128]
    except (ValueError, RecursionError):
        return ""


def read_reply(line: bytes) -> DoorReply:
    """Read an answer. Raises :class:`ValueError`."""
    return _REPLIES.decode(line)


def read_answer(call: type[Call[Any]], answer: bytes | msgspec.Raw) -> Any:
    """Read the answer to a call. Raises :class:`ValueError`."""
    if call is Events:
        return [_event(event) for event in _RAWS.decode(answer)]
    return msgspec.json.decode(answer, type=ANSWERS.get(call))


def _event(line: msgspec.Raw) -> ClusterEvent:
    """Read an event, of a kind that is known or not."""
    head = _HEADS.decode(line)
    return _EVENTS.decode(line) if head.kind in EVENT_KINDS else ClusterEvent(head.number, head.at)


def encode(value: object) -> bytes:
    """Return the JSON of a call, an answer or a reply; infinity becomes null."""
    return _ENCODER.encode(value)
