"""The calls of a broker as lines of JSON, each strictly checked: fields, kinds and limits.

A line in is ``{"call": "cancel", "key": "k1", "part": "7.1", "reason": ""}``. A line out has the same key, and either
``answer`` or ``error`` with ``code``, ``message``, ``hint`` and ``status``, an exit status.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from oarpy.grid.provider import (
    ClusterDescription,
    EvictableJob,
    GridPart,
    KnownPart,
    PartEvent,
    PartKind,
    PartRequest,
    PreparedPart,
)
from oarpy.model.errors import UsageError

_LONGEST_TIME = 4e9
MOST_PARTS = 1000
"""Parts that one call makes."""

Name = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"\A[!-~]+\Z", description="1 to 128 letters")]
Text = Annotated[str, Meta(max_length=1 << 18, pattern=r"\A[^\0]*\Z", description="a text without NUL")]
Line = Annotated[str, Meta(max_length=4096, pattern=r"\A[^\x00-\x1f\x7f]*\Z", description="one line of text")]
Variable = Annotated[str, Meta(max_length=256, pattern=r"\A(?!OARPY_)[A-Za-z_][A-Za-z0-9_]*\Z")]
Folder = Annotated[str, Meta(max_length=4096, pattern=r"\A/[^\x00-\x1f\x7f]*\Z", description="a path from /")]
Duration = Annotated[float, Meta(gt=0, le=_LONGEST_TIME, description="seconds above 0")]
Lifetime = Annotated[float, Meta(gt=0, le=86_400, description="seconds above 0, a day at most")]
Instant = Annotated[float, Meta(ge=0, le=_LONGEST_TIME, description="epoch seconds")]
Count = Annotated[int, Meta(ge=1, le=10_000_000, description="a whole number above 0")]
Copies = Annotated[int, Meta(ge=1, le=100_000, description="1 to 100,000")]
Number = Annotated[int, Meta(ge=0, le=2**62, description="a whole number, 0 or more")]
Words = Annotated[list[Line], Meta(max_length=64)]
Names = Annotated[list[Name], Meta(max_length=20_000)]
Hosts = Annotated[list[Name], Meta(max_length=200_000)]


class RequestFields(Struct, frozen=True, forbid_unknown_fields=True):
    """A :class:`PartRequest` in a line."""

    user: Name
    resources: Line
    procs: Count
    walltime: Duration
    queue: Line = ""
    properties: Line = ""
    project: Line = ""
    types: Words = []

    def request(self) -> PartRequest:
        """Return what it stands for."""
        return PartRequest(**{**msgspec.structs.asdict(self), "types": tuple(self.types)})


class PartFields(Struct, frozen=True, forbid_unknown_fields=True):
    """A :class:`GridPart` in a line."""

    name: Name
    kind: PartKind
    request: RequestFields
    program: Text = ""
    directory: Folder | None = None
    job_name: Line = ""
    begin: Instant | None = None
    environment: Annotated[dict[Variable, Text], Meta(max_length=1024)] = {}

    def part(self) -> GridPart:
        """Return what it stands for."""
        return GridPart(**{**msgspec.structs.asdict(self), "request": self.request.request()})


class DoorError(Struct, frozen=True):
    """Why a call was not done; ``status`` as the exit status of a command."""

    code: str
    message: str
    hint: str = ""
    status: int = 1


class DoorCall(Struct, frozen=True, kw_only=True, tag_field="call", forbid_unknown_fields=True):
    """A call of a broker. ``keyed`` ones change something; asked again with the same key they are done once.

    Of the others ``looks`` is true for those in which the database refuses every change.
    """

    keyed: ClassVar[bool] = False
    looks: ClassVar[bool] = True
    answers: ClassVar[Any] = None
    key: Name


class DescribeCall(DoorCall, frozen=True, tag="describe"):
    """See :class:`oarpy.grid.provider.Provider`, as for all of them."""

    answers = ClusterDescription


class IdleCall(DoorCall, frozen=True, tag="idle"):
    """How many processors could be claimed."""

    answers = int
    request: RequestFields
    begin: Instant | None = None


class WaitingCall(DoorCall, frozen=True, tag="waiting"):
    """The broker's parts that wait."""

    answers = list[KnownPart]


class EstimateCall(DoorCall, frozen=True, tag="estimate"):
    """When jobs would end; the answer has null for never."""

    answers = list[float | None]
    requests: Annotated[list[RequestFields | Name], Meta(max_length=20_000)]
    without: Names = []
    joined: Annotated[list[RequestFields], Meta(max_length=20_000)] = []
    age: Annotated[float, Meta(ge=0, le=3600, description="0 to 3,600 seconds")] = 0


class EstimateInTurnCall(DoorCall, frozen=True, tag="estimate_in_turn"):
    """When equal jobs would end, one behind the other; the answer has null for never."""

    answers = list[float | None]
    request: RequestFields
    count: Copies


class EvictableCall(DoorCall, frozen=True, tag="evictable"):
    """The local jobs that may give way."""

    answers = list[EvictableJob]
    request: RequestFields


class EventsCall(DoorCall, frozen=True, tag="events"):
    """What happened to parts; events get their numbers when they are first told."""

    looks = False
    answers = list[PartEvent]
    after: Number


class PrepareCall(DoorCall, frozen=True, tag="prepare"):
    """Make a part that cannot start, or freeze one."""

    keyed = True
    answers = PreparedPart
    transaction: Name
    part: PartFields
    ttl: Lifetime


class PartOfTransaction(Struct, frozen=True, forbid_unknown_fields=True):
    """A part, and the transaction that it is for."""

    transaction: Name
    part: PartFields


class PartAnswer(Struct, frozen=True, omit_defaults=True):
    """What came of one of many parts: ``prepared``, or why it was ``refused``."""

    prepared: PreparedPart | None = None
    refused: DoorError | None = None


class PrepareAllCall(DoorCall, frozen=True, tag="prepare_all"):
    """Make many queued parts."""

    keyed = True
    answers = list[PartAnswer]
    parts: Annotated[list[PartOfTransaction], Meta(max_length=MOST_PARTS)]
    ttl: Lifetime


class CommitCall(DoorCall, frozen=True, tag="commit"):
    """Carry out what was prepared."""

    keyed = True
    transaction: Name
    begin: Instant | None = None
    hosts: Hosts = []


class AbortCall(DoorCall, frozen=True, tag="abort"):
    """Undo what was prepared."""

    keyed = True
    transaction: Name


class CancelCall(DoorCall, frozen=True, tag="cancel"):
    """End a part. The answer is false for one that is not known, else null."""

    keyed = True
    answers = bool | None
    part: Name
    reason: Line = ""


class EvictCall(DoorCall, frozen=True, tag="evict"):
    """End local jobs for a transaction."""

    keyed = True
    answers = list[str]
    transaction: Name
    request: RequestFields
    procs: Count


AnyCall = (
    DescribeCall
    | IdleCall
    | WaitingCall
    | EstimateCall
    | EstimateInTurnCall
    | EvictableCall
    | EventsCall
    | PrepareCall
    | PrepareAllCall
    | CommitCall
    | AbortCall
    | CancelCall
    | EvictCall
)


class DoorReply(Struct, frozen=True, omit_defaults=True):
    """The line that answers a call; without ``error`` there is an ``answer``, which may be null."""

    key: str
    answer: msgspec.Raw | UnsetType = UNSET
    error: DoorError | UnsetType = UNSET


_CALLS = msgspec.json.Decoder(AnyCall)
_REPLIES = msgspec.json.Decoder(DoorReply)
_ENCODER = msgspec.json.Encoder()


class _Keyed(Struct):
    key: str = ""


_KEYS = msgspec.json.Decoder(_Keyed)


def read_call(line: bytes) -> AnyCall:
    """Read a line. Raises :class:`UsageError` for one that is not exactly a call."""
    try:
        call: AnyCall = _CALLS.decode(line)
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


def encode(value: object) -> bytes:
    """Return the JSON of a call, an answer or a reply; what is infinite is null."""
    return _ENCODER.encode(value)
