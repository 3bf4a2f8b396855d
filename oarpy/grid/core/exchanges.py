"""The events of a broker, and its actions, which its driver carries out in their order.

Both sets are open: a system has events and actions of its own, listed in its :class:`System`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from oarpy.grid.core.broker_state import BrokerState, CoAllocatedJob, JobId, MappedJob, Seconds, WaitingPart


@dataclass(frozen=True, slots=True)
class Event:
    """An event: something that happened."""

    @property
    def route(self) -> object:
        """Return the key by which a system takes it: its class, with an owner where several systems take the class."""
        return type(self)


@dataclass(frozen=True, slots=True)
class Action:
    """An action: something to be done."""


Take = Callable[[BrokerState, Any, float], list[Action]]
"""Takes an event at an instant: changes the state and returns the actions."""


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """A part of the broker that decides about jobs of its own: a row of the table in ``step``.

    ``takes`` has by route the effect of an event. ``asks`` are its actions. ``memory`` makes its memory, which is kept
    by its name in the state's ``memory``. ``values`` are further classes in its exchanges and its memory, by which
    records of decisions are read.
    """

    name: str
    takes: Mapping[object, Take]
    asks: tuple[type[Action], ...]
    memory: Callable[[], Any] | None = None
    values: tuple[type, ...] = ()


@dataclass(frozen=True, slots=True)
class JobArrived(Event):
    """A job was submitted. It belongs to the system that takes jobs of its class."""

    job: MappedJob | CoAllocatedJob

    @property
    def route(self) -> object:
        """The class of the job."""
        return JobArrived, type(self.job)


@dataclass(frozen=True, slots=True)
class LocalJob:
    """A local job that runs, and that would free ``procs`` processors."""

    id: JobId
    procs: int


@dataclass(frozen=True, slots=True)
class TryDue(Event):
    """The instant of a try: idle processors by cluster and, if it is the last, local jobs in the order of eviction."""

    job: JobId
    idle: Mapping[str, int]
    evictable: Mapping[str, Sequence[LocalJob]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PassDue(Event):
    """The instant of a reallocation pass: the mapped jobs that wait, in order of submission."""

    waiting: Sequence[WaitingPart]


Question = Literal["mapping", "pass"]
"""The purpose of ECTs: to give a job its cluster at its submission, or a reallocation pass."""


@dataclass(frozen=True, slots=True, eq=False)
class EctsTold(Event):
    """The answer to :class:`AskEcts`: for each cluster that was asked, in the same order, the ECTs of ``jobs``.

    A job that is missing has the same ECTs as before. ``question`` is the question of the action.
    """

    clusters: Sequence[str]
    jobs: Sequence[JobId]
    ects: Sequence[Sequence[float] | Seconds]
    question: Question

    @property
    def route(self) -> object:
        """The question."""
        return EctsTold, self.question


@dataclass(frozen=True, slots=True)
class AskEcts(Action):
    """Ask for the ECTs of jobs on clusters as they are now (answer: :class:`EctsTold`); changes nothing."""

    jobs: Sequence[JobId]
    clusters: Sequence[str]
    question: Question


@dataclass(frozen=True, slots=True)
class JoinQueue(Action):
    """Let a job join the end of a cluster's queue."""

    job: JobId
    cluster: str


@dataclass(frozen=True, slots=True)
class WithdrawJobs(Action):
    """Take jobs out of the queues in which they wait."""

    jobs: Sequence[JobId]


@dataclass(frozen=True, slots=True)
class MoveJob(Action):
    """Let a job join the end of another queue, and leave the old one unless it was withdrawn.

    ``old`` is its ECT where it waited, ``new`` that where it goes.
    """

    job: JobId
    source: str
    target: str
    old: float
    new: float


@dataclass(frozen=True, slots=True)
class TryAt(Action):
    """Look for room at an instant: :class:`TryDue` is expected then, with the jobs to evict if the try is the last."""

    job: JobId
    at: float
    last: bool


@dataclass(frozen=True, slots=True)
class ClaimParts(Action):
    """Evict local jobs, and hold processors for each component until the deadline; ``clusters`` has one a component."""

    job: JobId
    clusters: tuple[str, ...]
    evicted: tuple[JobId, ...]


@dataclass(frozen=True, slots=True)
class MissJob(Action):
    """A co-allocated job does not begin: there is no room."""

    job: JobId
