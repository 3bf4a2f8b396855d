"""The values in calls and answers: parts of jobs, with the limits of each field, events, and facts of clusters.

Times are epoch seconds on the cluster's clock, durations are seconds. Walltimes and run times are already divided by
the cluster's speed. Limits are checked where a line is read, not where an object is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

_LONGEST_TIME = 4e9

Name = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"\A[!-~]+\Z", description="1 to 128 letters")]
Text = Annotated[str, Meta(max_length=1 << 18, pattern=r"\A[^\0]*\Z", description="a text without NUL")]
Line = Annotated[str, Meta(max_length=4096, pattern=r"\A[^\x00-\x1f\x7f]*\Z", description="one line of text")]
Variable = Annotated[str, Meta(max_length=256, pattern=r"\A(?!OARPY_)[A-Za-z_][A-Za-z0-9_]*\Z")]
Folder = Annotated[str, Meta(max_length=4096, pattern=r"\A/[^\x00-\x1f\x7f]*\Z", description="a path from /")]
Duration = Annotated[float, Meta(gt=0, le=_LONGEST_TIME, description="seconds above 0")]
Lifetime = Annotated[float, Meta(gt=0, le=86_400, description="seconds above 0, a day at most")]
Instant = Annotated[float, Meta(ge=0, le=_LONGEST_TIME, description="epoch seconds")]
Age = Annotated[float, Meta(ge=0, le=3600, description="0 to 3,600 seconds")]
Count = Annotated[int, Meta(ge=1, le=10_000_000, description="a whole number above 0")]
Copies = Annotated[int, Meta(ge=1, le=100_000, description="1 to 100,000")]
Number = Annotated[int, Meta(ge=0, le=2**62, description="a whole number, 0 or more")]
Words = Annotated[tuple[Line, ...], Meta(max_length=64)]
Names = Annotated[Sequence[Name], Meta(max_length=20_000)]
Hosts = Annotated[Sequence[Name], Meta(max_length=200_000)]
TaskNumbers = Annotated[tuple[Count, ...], Meta(min_length=1, max_length=100_000)]
Shares = Annotated[tuple[Annotated[int, Meta(ge=1, le=100)], ...], Meta(min_length=1, max_length=100)]
OfferName = Annotated[str, Meta(max_length=256, pattern=r"\A[!-~]*\Z")]

ProgramPath = Annotated[str, Meta(min_length=1, max_length=1000, pattern=r"\A[^\x00-\x1f\x7f]*\Z")]
ProgramArguments = Annotated[str, Meta(max_length=1000, pattern=r"\A[^\0]*\Z")]
SizeName = Annotated[str, Meta(max_length=100, pattern=r"\A[A-Za-z0-9_.+-]+\Z")]
SizeNames = Annotated[tuple[SizeName, ...], Meta(min_length=1, max_length=100)]
NodeType = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"\A[^\x00-\x1f\x7f]*\Z")]
TaskSeconds = Annotated[dict[NodeType, Duration], Meta(max_length=20)]
"""How long a task of a bag takes, by type of nodes."""
Processes = Annotated[int, Meta(ge=1, le=100_000)]
Iterations = Annotated[int, Meta(ge=1, le=100_000_000)]
Runs = Annotated[tuple[tuple[SizeName, Processes, Duration, Processes], ...], Meta(max_length=100_000)]
MapLine = Annotated[str, Meta(pattern=r"\A[!-~]{1,255} [0-9]{1,6} [!-~]{1,100} [1-9][0-9]{0,5}\Z")]
"""Host, core, size, and how many processes of that size."""
MapLines = Annotated[tuple[MapLine, ...], Meta(max_length=200_000)]

Ability = Literal["claim", "reserve", "withdraw", "evict", "amend", "foresee", "offer", "rate", "profile"]

PartKind = Literal["claim", "queued", "reserved", "withdrawn", "bag"]
"""The kinds of parts, each of which stands for a component on a cluster.

``claim``: idle processors held at once, for a program that begins later. ``queued``: a job that waits in its queue once
it is committed. ``reserved``: processors from a date on. ``withdrawn``: a waiting job, frozen in its rank, or a
reservation, which keeps its place meanwhile. ``bag``: tasks, each of which is one such request, with a promise.
"""

PartEventKind = Literal["started", "ended", "failed", "lost", "evicted", "lapsed", "idle", "task", "completion"]

ABILITY_FOR: dict[PartKind, Ability] = {
    "claim": "claim",
    "reserved": "reserve",
    "withdrawn": "withdraw",
    "bag": "offer",
}
"""The ability that a cluster needs to prepare a part of a kind; every cluster has queued parts."""


class PartRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The request of a part: ``resources`` as after ``-l`` and without a walltime, in all ``procs`` processors.

    ``user`` is the broker's user; the cluster's grants name the local user.
    """

    user: Name
    resources: Line
    procs: Count
    walltime: Duration
    queue: Line = ""
    properties: Line = ""
    project: Line = ""
    types: Words = ()


class BagPart(Struct, frozen=True, forbid_unknown_fields=True):
    """What a part of kind ``bag`` has: its ``tasks``, by their numbers over all clusters, are done by ``end_by``.

    ``offer`` is what it takes up, as its cluster called it; empty: none. A cluster that cannot do it by then refuses it
    if it is ``strict``, else it does it as soon as it can. ``profile`` has the seconds of a task there.
    """

    tasks: TaskNumbers
    end_by: Instant
    offer: OfferName = ""
    strict: bool = True
    profile: TaskSeconds | UnsetType = UNSET


class ProgramFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A program whose rates are measured, and its ``arguments``. Another ``size`` or ``date`` makes it another one."""

    path: ProgramPath
    size: Number
    date: Annotated[int, Meta(ge=-(2**62), le=2**62)]
    arguments: ProgramArguments = ""


class ProcessesOfPart(Struct, frozen=True, forbid_unknown_fields=True):
    """The map of a program's processes, as far as a part has them: ``cores`` and what they run, by type of nodes.

    ``processes`` and ``seconds``, the prediction, are those of the whole program. ``assigned`` has what the
    cores of a type run in turn: sizes with their number, the seconds that one takes, and how many a core has in a row.
    """

    program: ProgramFile
    processes: Processes
    iterations: Iterations
    sizes: SizeNames
    model: Name
    seconds: Duration
    cores: Annotated[dict[NodeType, Count], Meta(min_length=1, max_length=100)]
    assigned: Annotated[dict[NodeType, Runs], Meta(max_length=100)]


class GridPart(Struct, frozen=True, forbid_unknown_fields=True):
    """A part, by a ``name`` that is unique among all parts of the broker.

    ``begin`` is the date of a reservation, or the deadline of a claim; None for a part that starts when it can. For a
    ``withdrawn`` part the name alone counts: it is the queued part that is frozen. A reservation with ``patience`` has
    its processors from its date on, and begins when the broker says so. If it has not begun so many seconds after its
    date, it ends. ``map`` has the processes that its cores run.
    """

    name: Name
    kind: PartKind
    request: PartRequest
    program: Text = ""
    directory: Folder | None = None
    job_name: Line = ""
    begin: Instant | None = None
    environment: Annotated[dict[Variable, Text], Meta(max_length=1024)] = {}
    patience: Duration | UnsetType = UNSET
    bag: BagPart | UnsetType = UNSET
    map: ProcessesOfPart | UnsetType = UNSET


class PartOfTransaction(Struct, frozen=True, forbid_unknown_fields=True):
    """A part, and the transaction that it is for."""

    transaction: Name
    part: GridPart


@dataclass(frozen=True, slots=True)
class ClusterAbilities:
    """The abilities of a cluster besides holding queued jobs. ``evict``: its owner lets some local jobs give way.

    ``amend``: give a reservation another place, keeping the old place meanwhile; ``foresee``: say when how many
    processors are free; ``offer``: promise by when bags of tasks are done; ``rate``: measure programs, and map their
    processes; ``profile``: measure how long a task of a bag takes. Older clusters do not mention these five, and lack
    them.
    """

    claim: bool = True
    reserve: bool = True
    withdraw: bool = True
    evict: bool = False
    amend: bool = False
    foresee: bool = False
    offer: bool = False
    rate: bool = False
    profile: bool = False


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """``procs`` processors in all, ``speed`` times as fast as speed 1.

    ``clock`` is the cluster's time of the answer.
    """

    procs: int
    speed: float
    clock: float
    abilities: ClusterAbilities


@dataclass(frozen=True, slots=True)
class FreeSlot:
    """A step of free processors: ``procs`` are free from ``begin`` on, until the next slot begins."""

    begin: float
    procs: int


@dataclass(frozen=True, slots=True)
class PreparedPart:
    """A prepared part. ``job`` is the cluster's own id of it; ``hosts`` has the known hosts, one for each processor.

    ``end`` is by when the tasks of a bag are done; ``map`` has lines ``host core size processes`` of a running part.
    """

    job: str
    hosts: tuple[str, ...] = ()
    end: float | None = None
    map: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RatedType:
    """A type of nodes: the iterations a second of a program's sizes on it, or the reason why there are none.

    It has rates of all sizes, or of none. ``condition`` on resources says that they are of this type. ``measuring``: a
    job measures the rates.
    """

    name: str
    condition: str
    rates: dict[SizeName, Annotated[float, Meta(gt=0, le=9007199254740992)]]
    reason: str = ""
    measuring: bool = False


@dataclass(frozen=True, slots=True)
class ProfiledType:
    """A type of nodes: the seconds of a task of a bag on it, or the reason why they are not known.

    ``measuring``: a job measures them.
    """

    name: str
    seconds: Annotated[float, Meta(gt=0, le=9007199254740992)] | None = None
    reason: str = ""
    measuring: bool = False


@dataclass(frozen=True, slots=True)
class TaskOffer:
    """So many tasks of a bag would be done by ``end``. A part that takes it up names it by ``name``.

    They are ``expected`` earlier if their profile was told; the offer is for ``end``.
    """

    tasks: int
    end: float
    name: str = ""
    expected: float | None = None


@dataclass(frozen=True, slots=True)
class BagOffers:
    """What a cluster offers for a bag, by its plan number ``plan`` and until ``until``; larger offers end later.

    What it tells besides is its owner's choice: its ``power``, in processors at speed 1, the processor seconds that
    are ``pending``, and whether it tells free ``slots``.
    """

    plan: int
    until: float
    offers: tuple[TaskOffer, ...] = ()
    power: float | None = None
    pending: float | None = None
    slots: bool = False


class BagCompletion(Struct, frozen=True, forbid_unknown_fields=True):
    """When the bag of a part is done over all clusters. Of two messages that of the higher ``version`` counts."""

    part: Name
    completion: Instant
    version: Annotated[int, Meta(ge=1, le=2**31 - 1)]


@dataclass(frozen=True, slots=True)
class KnownPart:
    """A part of the broker that waits on the cluster; ``submitted`` is when it joined its queue there."""

    name: str
    job: str
    submitted: float


@dataclass(frozen=True, slots=True)
class EvictableJob:
    """A running local job that may be evicted. ``job`` is the cluster's own id."""

    job: str
    procs: int


class ClusterEvent(Struct, frozen=True, tag_field="kind", tag="other"):
    """An event on a cluster at an instant; ``number`` grows. Only some events are about a part.

    An event of a kind that the broker does not know, as a newer cluster may send, has these two fields alone.
    """

    number: int
    at: float

    @property
    def kind(self) -> str:
        """The name of the event in lines."""
        return str(self.__struct_config__.tag)


class PartEvent(ClusterEvent, frozen=True, tag="part"):
    """An event of a part; ``job`` is the cluster's own id. A field that a kind does not use stays empty."""

    part: str
    job: str = ""
    hosts: tuple[str, ...] = ()
    status: int | None = None
    reason: str = ""


class PartStarted(PartEvent, frozen=True, tag="started"):
    """It runs, on ``hosts``."""


class PartOver(PartEvent, frozen=True, tag="over"):
    """The part has ended, or never ran; ``reason`` says why."""


class PartEnded(PartOver, frozen=True, tag="ended"):
    """Its program has ended, with ``status``."""


class PartFailed(PartOver, frozen=True, tag="failed"):
    """It could not run, or was ended."""


class PartLost(PartOver, frozen=True, tag="lost"):
    """The cluster lost the part, for example with its node."""


class PartEvicted(PartOver, frozen=True, tag="evicted"):
    """The cluster took the part's processors for other jobs."""


class PartLapsed(PartEvent, frozen=True, tag="lapsed"):
    """The part was prepared, and not committed in time."""


class PartIdle(PartEvent, frozen=True, tag="idle"):
    """The part waits for its date, and a job ended early on the cluster: the part may have an earlier date."""


class PartTaskOver(PartEvent, frozen=True, tag="task"):
    """A task of a bag is over, and is not run again: number ``task``, with ``status``, or for a reason."""

    task: int = 0


class PartCompletion(PartEvent, frozen=True, tag="completion"):
    """The last task of a bag is done at ``completion`` on this cluster, as planned now."""

    completion: float = 0.0


class PlanChanged(ClusterEvent, frozen=True, tag="changed"):
    """There was a pass while offers to the broker were open: the plan is number ``plan`` now, and other offers hold."""

    plan: int


AnyEvent = (
    PartStarted
    | PartEnded
    | PartFailed
    | PartLost
    | PartEvicted
    | PartLapsed
    | PartIdle
    | PartTaskOver
    | PartCompletion
    | PlanChanged
)

PART_EVENTS: dict[PartEventKind, type[PartEvent]] = {
    "started": PartStarted,
    "ended": PartEnded,
    "failed": PartFailed,
    "lost": PartLost,
    "evicted": PartEvicted,
    "lapsed": PartLapsed,
    "idle": PartIdle,
    "task": PartTaskOver,
    "completion": PartCompletion,
}

EVENT_KINDS = frozenset((*PART_EVENTS, "changed"))
"""The kinds of events that a broker knows."""
