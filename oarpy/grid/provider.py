"""What a broker may ask of a cluster: the one interface that real, simulated and foreign clusters implement.

Every call carries a key: asked twice with the same key, it is done once and answered alike. Times are epoch seconds on
the cluster's clock, durations seconds; walltimes and run times are those on this cluster, already divided by its speed.
A change on several clusters is two-phase: all prepare; the broker stores its decision; only then all commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from oarpy.model.errors import OarpyError

PartKind = Literal["claim", "queued", "reserved", "withdrawn"]
"""What stands for a component on a cluster.

``claim``: idle processors held at once, for a program that begins later. ``queued``: a job that waits in its queue once
it is committed. ``reserved``: processors from a date on. ``withdrawn``: a waiting job, frozen in its rank.
"""

PartEventKind = Literal["started", "ended", "failed", "lost", "evicted", "lapsed"]


class ClusterSilent(OarpyError):
    """A cluster does not answer: whether it did what it was asked is not known."""

    code = "cluster_silent"
    exit_status = 6


class CallRefused(OarpyError):
    """A cluster says no: it did nothing."""

    code = "cluster_refuses"
    exit_status = 3


@dataclass(frozen=True, slots=True)
class ClusterAbilities:
    """What a cluster can do besides holding queued jobs. ``evict``: its owner lets some local jobs give way."""

    claim: bool = True
    reserve: bool = True
    withdraw: bool = True
    evict: bool = False


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """``procs`` processors in all, so many times as fast as speed 1; ``clock`` is the cluster's time of the answer."""

    procs: int
    speed: float
    clock: float
    abilities: ClusterAbilities


@dataclass(frozen=True, slots=True)
class PartRequest:
    """What a part asks for: ``resources`` as after ``-l`` and without a walltime, which are ``procs`` processors.

    ``user`` is the broker's user; the cluster's grants say which local user that is.
    """

    user: str
    resources: str
    procs: int
    walltime: float
    queue: str = ""
    properties: str = ""
    project: str = ""
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GridPart:
    """A part, by a ``name`` that is unique among all parts of the broker.

    ``begin`` is the date of a reservation, and the deadline of a claim; None for what starts when it can. Of a
    ``withdrawn`` part the name alone counts: it is the queued part that is frozen.
    """

    name: str
    kind: PartKind
    request: PartRequest
    program: str = ""
    directory: str | None = None
    job_name: str = ""
    begin: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PreparedPart:
    """``job`` is the cluster's own id of it; ``hosts`` has the hosts that are known already, one a processor's host."""

    job: str
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownPart:
    """A part of the broker that waits on the cluster; ``submitted`` is when it joined its queue there."""

    name: str
    job: str
    submitted: float


@dataclass(frozen=True, slots=True)
class EvictableJob:
    """A local job that runs and may be made to give way. ``job`` is the cluster's own id."""

    job: str
    procs: int


@dataclass(frozen=True, slots=True)
class PartEvent:
    """What happened to a part. ``number`` grows; ``hosts`` are told with ``started``, ``status`` with ``ended``."""

    number: int
    part: str
    kind: PartEventKind
    at: float
    job: str = ""
    hosts: tuple[str, ...] = ()
    status: int | None = None
    reason: str = ""


class Provider(Protocol):
    """A cluster, as a broker sees it. Every call raises :class:`ClusterSilent` or :class:`CallRefused`."""

    @property
    def name(self) -> str:
        """The cluster's name: letters, digits and ``_``."""

    def describe(self) -> ClusterDescription:
        """Return what the cluster is."""

    def idle(self, request: PartRequest, begin: float | None = None) -> int:
        """Return how many processors that fit the request could be claimed now, until it ends.

        It ends its walltime after ``begin``: the deadline of a claim (None: now).
        """

    def waiting(self) -> Sequence[KnownPart]:
        """Return the broker's committed parts that wait, in the order of joining."""

    def estimate(
        self,
        requests: Sequence[PartRequest | str],
        without: Sequence[str] = (),
        joined: Sequence[PartRequest] = (),
        age: float = 0,
    ) -> Sequence[float]:
        """Return when jobs would end if all took their whole walltime and nobody else came; changes nothing.

        A name stands for a part that waits, or that is prepared or frozen: then as if it were let go on. Each request
        joins the end of its queue alone: the answers to several do not count each other. Parts in ``without`` are left
        out; those in ``joined`` join first, in this order. All answers are of one snapshot, which may be ``age``
        seconds old. Infinite where a job can never run; a part that is
        gone ends now.
        """

    def estimate_in_turn(self, request: PartRequest, count: int) -> Sequence[float]:
        """Return when ``count`` equal jobs would end, if each joined the queue behind the ones before it."""

    def evictable(self, request: PartRequest) -> Sequence[EvictableJob]:
        """Return the local jobs that the owner lets give way to such a part, in the order in which they would."""

    def prepare(self, key: str, transaction: str, part: GridPart, ttl: float) -> PreparedPart:
        """Make a part that cannot start, or freeze one; it lapses ``ttl`` seconds from now unless it is committed."""

    def prepare_all(
        self, key: str, parts: Sequence[tuple[str, GridPart]], ttl: float
    ) -> Sequence[PreparedPart | CallRefused]:
        """Make many queued parts, each for the transaction before it; what is refused refuses itself alone.

        Answers are in the order of the parts.
        """

    def commit(self, key: str, transaction: str, begin: float | None = None, hosts: Sequence[str] = ()) -> None:
        """Carry out what was prepared: let parts start, at ``begin`` by the cluster's clock; delete withdrawn ones.

        ``hosts`` are those of all components, for ``OAR_GRID_NODEFILE``.
        """

    def abort(self, key: str, transaction: str) -> None:
        """Undo what was prepared; frozen parts go on in their old rank. What is prepared for it later is refused."""

    def cancel(self, key: str, part: str, reason: str = "") -> bool:
        """End a part, whatever it does; one that is over stays so. Return False for one that the cluster never had."""

    def evict(self, key: str, transaction: str, request: PartRequest, procs: int) -> Sequence[str]:
        """End local jobs in the order of :meth:`evictable` until ``procs`` more processors are idle for a transaction.

        Returns the cluster's ids of the jobs that have to go; if all of them do not suffice, none, and nobody goes.
        """

    def events(self, after: int) -> Sequence[PartEvent]:
        """Return what happened to the broker's parts since the event ``after``, in order; 0: since the beginning."""

    def close(self) -> None:
        """End the connection."""
