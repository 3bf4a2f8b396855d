"""The table of calls: everything that a broker asks of a cluster.

A call has fields, the type of its answer, the ability that a cluster needs for it, and its effect::

    question   looks: the cluster changes nothing   describe, idle, slots, offers, rates, waiting, estimate,
                                                    estimate_in_turn, evictable, profiled
               numbers events, else nothing         events
    change     done once for its key                prepare, prepare_all, amend, commit, abort, begin, cancel, evict,
                                                    tell_completions, measure, stop_measuring, take_profile

A change on several clusters is two-phase: all prepare; the broker stores its decision; only then all commit. A new call
is a class here, a place in :data:`AnyCall`, and a handler of each kind of cluster that can do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Generic, Literal, Protocol, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

from oarpy.grid.calls.parts import (
    Ability,
    Age,
    BagCompletion,
    BagOffers,
    ClusterDescription,
    ClusterEvent,
    Copies,
    Count,
    EvictableJob,
    Folder,
    FreeSlot,
    GridPart,
    Hosts,
    Instant,
    KnownPart,
    Lifetime,
    Line,
    MapLines,
    Name,
    Names,
    Number,
    PartOfTransaction,
    PartRequest,
    PreparedPart,
    ProfiledType,
    ProgramFile,
    ProgramPath,
    RatedType,
    Shares,
    SizeNames,
    TaskSeconds,
)
from oarpy.model.errors import OarpyError

Answer = TypeVar("Answer")
Answered = TypeVar("Answered", covariant=True)

Effect = Literal["looks", "numbers", "changes"]
"""The effect of a call on a cluster: nothing, numbers for events when they are first sent, or more."""

MOST_PARTS = 1000
"""The number of parts that one line may make."""


class ClusterSilent(OarpyError):
    """A cluster does not answer: whether it carried out the call is unknown."""

    code = "cluster_silent"
    exit_status = 6


class CallRefused(OarpyError):
    """A cluster says no: it did nothing."""

    code = "cluster_refuses"
    exit_status = 3


class PartsUndone(CallRefused):
    """A cluster undid what it had prepared, before it heard of the decision: nothing of that began."""

    code = "parts_undone"


class Call(Struct, Generic[Answered], frozen=True, kw_only=True, tag_field="call", forbid_unknown_fields=True):
    """A call to a cluster; ``key`` ties the answer to it.

    ``ability`` is the ability that the call needs. For :class:`Prepare` it depends on the kind of the part.
    """

    effect: ClassVar[Effect] = "looks"
    ability: ClassVar[Ability | None] = None
    key: Name

    @property
    def name(self) -> str:
        """Its name in lines."""
        return str(self.__struct_config__.tag)


class Question(Call[Answered], Generic[Answered], frozen=True, kw_only=True):
    """A call that changes nothing. It gets its key where it becomes a line."""

    key: Name = ""


class Change(Call[Answered], Generic[Answered], frozen=True, kw_only=True):
    """A call that changes something. Repeated with the same ``key``, it is done once and gets the same answer."""

    effect = "changes"


class Describe(Question[ClusterDescription], frozen=True, tag="describe"):
    """Ask for the cluster's description of itself."""


class Idle(Question[int], frozen=True, tag="idle"):
    """Ask how many processors that fit the request could be claimed now, until the part ends.

    It ends its walltime after ``begin``: the deadline of a claim (None: now).
    """

    request: PartRequest
    begin: Instant | None = None


class Slots(Question[Sequence[FreeSlot]], frozen=True, tag="slots"):
    """Ask how many processors that fit the request are free from ``begin`` until ``end``, as steps over time.

    Processors of jobs that run, are reserved, or have their place in the plan of the last pass, are not free;
    processors of parts in ``without`` are. Parts that fit by number may be refused where they need the same processors
    throughout.
    """

    ability = "foresee"
    request: PartRequest
    begin: Instant
    end: Instant
    without: Names = ()


class Offers(Question[BagOffers], frozen=True, tag="offers"):
    """By when shares of a bag could be done: of ``tasks``, each of which asks for ``request``, so many percent each.

    With ``end_by`` offers that can be had by then end then. Nothing is held for an offer; who takes it up in time, on
    an unchanged plan, gets it. With a ``profile`` the answer tells when the tasks are expected to be done, too.
    """

    ability = "offer"
    request: PartRequest
    tasks: Copies
    end_by: Instant | None = None
    shares: Shares = (10, 25, 50, 75, 100)
    profile: TaskSeconds | UnsetType = UNSET


class Rates(Question[Sequence[RatedType]], frozen=True, tag="rates"):
    """Ask for the rates of a program's ``sizes`` on each type of nodes that a part with this ``request`` may have."""

    ability = "rate"
    request: PartRequest
    program: ProgramFile
    sizes: SizeNames


class Waiting(Question[Sequence[KnownPart]], frozen=True, tag="waiting"):
    """Ask for the broker's committed parts that wait, in the order of joining."""


class Estimate(Question[Sequence[float]], frozen=True, tag="estimate"):
    """Ask when jobs would end if all took their whole walltime and no other job came.

    A name stands for a part that waits, is prepared or is frozen; the answer is as if it were let go on. Each request
    joins the end of its queue alone: the answers to several requests do not count each other. Parts in ``without`` are
    left out; requests in ``joined`` join first, in this order. All answers are of one snapshot, which may be ``age``
    seconds old. The answer is infinite where a job can never run; a part that is gone ends now.
    """

    requests: Annotated[Sequence[PartRequest | Name], Meta(max_length=20_000)]
    without: Names = ()
    joined: Annotated[Sequence[PartRequest], Meta(max_length=20_000)] = ()
    age: Age = 0


class EstimateInTurn(Question[Sequence[float]], frozen=True, tag="estimate_in_turn"):
    """Ask when ``count`` equal jobs would end, if each joined the queue behind the ones before it."""

    request: PartRequest
    count: Copies


class Evictable(Question[Sequence[EvictableJob]], frozen=True, tag="evictable"):
    """Ask for the local jobs that the owner lets give way to such a part, in the order of eviction."""

    ability = "evict"
    request: PartRequest


class Events(Question[Sequence[ClusterEvent]], frozen=True, tag="events"):
    """Ask for the events of the broker's parts and other events after the event ``after``, in order.

    0: from the beginning.
    """

    effect = "numbers"
    after: Number


class Prepare(Change[PreparedPart], frozen=True, tag="prepare"):
    """Make a part that cannot start, or freeze one; it lapses ``ttl`` seconds from now unless it is committed."""

    transaction: Name
    part: GridPart
    ttl: Lifetime


class PrepareAll(Change[Sequence[PreparedPart | CallRefused]], frozen=True, tag="prepare_all"):
    """Make many queued parts, each for a transaction; a refused part does not concern the others.

    Answers are in the order of the parts.
    """

    parts: Annotated[Sequence[PartOfTransaction], Meta(max_length=MOST_PARTS)]
    ttl: Lifetime


class Amend(Change[PreparedPart], frozen=True, tag="amend"):
    """Reserve ``part`` in place of a reserved part that has not begun, as if the old part were away.

    Both are held until the decision; resources that they share are held once. A commit ends the old part and lets the
    new one go, in one act; it is refused once the old one has begun. An abort, or a lapse, leaves the old one as it is.
    """

    ability = "amend"
    transaction: Name
    instead_of: Name
    part: GridPart
    ttl: Lifetime


class Commit(Change[None], frozen=True, tag="commit"):
    """Carry out prepared acts: let parts start, at ``begin`` by the cluster's clock; delete withdrawn parts.

    ``hosts`` has the hosts of all components, for ``OAR_GRID_NODEFILE``.
    """

    transaction: Name
    begin: Instant | None = None
    hosts: Hosts = ()


class Abort(Change[None], frozen=True, tag="abort"):
    """Undo the prepared acts; frozen parts go on in their old rank. Later acts of the transaction are refused."""

    transaction: Name


class Begin(Change[PreparedPart], frozen=True, tag="begin"):
    """Let a part with patience begin, now that it holds its processors; the answer has its hosts when it runs.

    ``hosts`` has the hosts of the other parts: with its own before them they are the hosts of the job. ``map`` has the
    processes there, as these parts answered.
    """

    ability = "foresee"
    part: Name
    hosts: Hosts = ()
    map: MapLines | UnsetType = UNSET


class Measure(Change[None], frozen=True, tag="measure"):
    """Measure what rates of a program are missing, by jobs of the user that ``request`` names, in ``directory``.

    ``script`` is run as ``SCRIPT SIZE ITERATIONS``. Other fields are those of :class:`Rates`.
    """

    ability = "rate"
    request: PartRequest
    program: ProgramFile
    sizes: SizeNames
    script: ProgramPath
    directory: Folder | None = None


class StopMeasuring(Change[None], frozen=True, tag="stop_measuring"):
    """Tell that the rates which :class:`Measure` with the key ``measure`` was for are needed no more.

    Jobs that measure them end, unless other jobs wait for them.
    """

    ability = "rate"
    measure: Name


class TakeProfile(Change[None], frozen=True, tag="take_profile"):
    """Measure how long a task with this ``request`` takes on each type of nodes, by jobs of the user in ``directory``.

    The last line that ``script`` prints is the seconds. Jobs that have not begun ``limit`` seconds from now, at most
    those that the cluster allows, are given up.
    """

    ability = "profile"
    profile: Name
    request: PartRequest
    script: ProgramPath
    limit: Lifetime
    directory: Folder | None = None


class Profiled(Question[Sequence[ProfiledType]], frozen=True, tag="profiled"):
    """Ask what the jobs of :class:`TakeProfile` have told, by type of nodes."""

    ability = "profile"
    profile: Name


class Cancel(Change[bool], frozen=True, tag="cancel"):
    """End a part, whatever it does; an ended part stays so. The answer is false for a part that never existed."""

    part: Name
    reason: Line = ""


class TellCompletions(Change[None], frozen=True, tag="tell_completions"):
    """Hear when bags of which there are parts here are done over all clusters: tasks that end before gain nothing."""

    ability = "offer"
    bags: Annotated[Sequence[BagCompletion], Meta(max_length=10_000)]


class Evict(Change[Sequence[str]], frozen=True, tag="evict"):
    """End local jobs in the order of :class:`Evictable` until ``procs`` more processors are idle for a transaction.

    The answer has the cluster's ids of the jobs that have to go. If all of them do not suffice, it is empty and no job
    goes.
    """

    ability = "evict"
    transaction: Name
    request: PartRequest
    procs: Count


AnyCall = (
    Describe
    | Idle
    | Slots
    | Offers
    | Rates
    | Waiting
    | Estimate
    | EstimateInTurn
    | Evictable
    | Events
    | Prepare
    | PrepareAll
    | Amend
    | Commit
    | Abort
    | Begin
    | Measure
    | StopMeasuring
    | TakeProfile
    | Profiled
    | Cancel
    | Evict
    | TellCompletions
)


class Cluster(Protocol):
    """A cluster, as a broker sees it: real, simulated or foreign."""

    @property
    def name(self) -> str:
        """The cluster's name: letters, digits and ``_``."""

    def ask(self, call: Call[Answer]) -> Answer:
        """Return the answer to a call. Raises :class:`ClusterSilent` or :class:`CallRefused`."""

    def close(self) -> None:
        """End the connection."""


def unable(cluster: str, call: Call[Any]) -> CallRefused:
    """Return the refusal of a cluster that has no handler for a call."""
    return CallRefused(f"cluster '{cluster}' cannot {call.ability or 'do that'}")


def prepare_each(cluster: Cluster, call: PrepareAll) -> list[PreparedPart | CallRefused]:
    """Answer ``prepare_all`` by a call for each part, each key made from the key of all.

    A cluster that falls silent meanwhile may have made the first parts.
    """
    return [_prepared_or_refused(cluster, f"{call.key}:{part.part.name}", part, call.ttl) for part in call.parts]


def _prepared_or_refused(
    cluster: Cluster, key: str, transaction: PartOfTransaction, ttl: float
) -> PreparedPart | CallRefused:
    try:
        return cluster.ask(Prepare(transaction.transaction, transaction.part, ttl, key=key))
    except CallRefused as error:
        return error
