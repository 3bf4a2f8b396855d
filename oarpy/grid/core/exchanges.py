"""What a broker hears of, and what it asks for. Whoever drives it carries out actions in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from oarpy.grid.core.broker_state import CoAllocatedJob, JobId, MappedJob, Seconds, WaitingPart


@dataclass(frozen=True, slots=True)
class JobArrived:
    """A job was submitted."""

    job: MappedJob | CoAllocatedJob


@dataclass(frozen=True, slots=True)
class LocalJob:
    """A local job that runs, and that would free ``procs`` processors."""

    id: JobId
    procs: int


@dataclass(frozen=True, slots=True)
class TryDue:
    """The instant of a try: idle processors by cluster and, if it is the last, local jobs in the order of eviction."""

    job: JobId
    idle: Mapping[str, int]
    evictable: Mapping[str, Sequence[LocalJob]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PassDue:
    """The instant of a reallocation pass: the mapped jobs that wait, in order of submission."""

    waiting: Sequence[WaitingPart]


Question = Literal["mapping", "pass"]
"""What ECTs are asked for: to give a job its cluster at its submission, or for a reallocation pass."""


@dataclass(frozen=True, slots=True, eq=False)
class EctsTold:
    """The answer to :class:`AskEcts`: for each cluster that was asked, in the same order, the ECTs of ``jobs``.

    Who is not among them has the ECTs that were told before. ``question`` is that of the action.
    """

    clusters: Sequence[str]
    jobs: Sequence[JobId]
    ects: Sequence[Sequence[float] | Seconds]
    question: Question


Event = JobArrived | TryDue | PassDue | EctsTold


@dataclass(frozen=True, slots=True)
class AskEcts:
    """Find the ECTs of jobs on clusters as things stand now, and tell them (:class:`EctsTold`); changes nothing."""

    jobs: Sequence[JobId]
    clusters: Sequence[str]
    question: Question


@dataclass(frozen=True, slots=True)
class JoinQueue:
    """Let a job join the end of a cluster's queue."""

    job: JobId
    cluster: str


@dataclass(frozen=True, slots=True)
class WithdrawJobs:
    """Take jobs out of the queues in which they wait."""

    jobs: Sequence[JobId]


@dataclass(frozen=True, slots=True)
class MoveJob:
    """Let a job join the end of another queue, and leave the old one unless it was withdrawn.

    ``old`` is its ECT where it waited, ``new`` that where it goes.
    """

    job: JobId
    source: str
    target: str
    old: float
    new: float


@dataclass(frozen=True, slots=True)
class TryAt:
    """Have room looked for at an instant: :class:`TryDue` is expected then, with who may be evicted if it is last."""

    job: JobId
    at: float
    last: bool


@dataclass(frozen=True, slots=True)
class ClaimParts:
    """Evict local jobs, and hold processors for each component until the deadline; ``clusters`` has one a component."""

    job: JobId
    clusters: tuple[str, ...]
    evicted: tuple[JobId, ...]


@dataclass(frozen=True, slots=True)
class MissJob:
    """A co-allocated job does not begin: there is no room."""

    job: JobId


Action = AskEcts | JoinQueue | WithdrawJobs | MoveJob | TryAt | ClaimParts | MissJob
