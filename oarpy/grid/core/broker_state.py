"""The clusters of a broker and the jobs that it has been given. Times are seconds on one axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from oarpy.grid.core.followers import Followers, Kind

JobId = int | str
Seconds = NDArray[np.float64]
Places = NDArray[np.int64]

MappingRule = Literal["mct", "random", "round_robin"]
HeuristicName = Literal["mct", "minmin", "maxmin", "maxgain", "maxrelgain", "sufferage"]
EvictionInstant = Literal["deadline", "last_try"]
AlgorithmNumber = Literal[0, 1, 2]


@dataclass(frozen=True, slots=True)
class GridCluster:
    """``procs`` equal processors, ``speed`` times as fast as speed 1.

    ``evict``: its owner lets local jobs be evicted.
    """

    name: str
    procs: int
    speed: float = 1
    evict: bool = True


@dataclass(frozen=True, slots=True)
class MappedJob:
    """A job that runs on one cluster, which the broker chooses. ``walltime`` is at speed 1."""

    id: JobId
    submitted: float
    procs: int
    walltime: float


@dataclass(frozen=True, slots=True)
class CoAllocatedJob:
    """A job of equal ``components``, ``procs`` processors each, that start together at ``deadline``."""

    id: JobId
    submitted: float
    procs: int
    components: int
    deadline: float


@dataclass(frozen=True, slots=True)
class DeadlineRules:
    """When room is looked for: ``lp`` and ``tries`` are Lp and Mp of RPP, ``wait`` is X of Wait-X, in seconds.

    ``evict_at`` says which try is the last, which alone may evict: the try at the deadline, or at PTMp. ``lead`` is the
    time before the deadline in which no try is made any more: the next steps take time on real clusters.
    """

    lp: float = 0.7
    tries: int = 10
    wait: float = inf
    evict_at: EvictionInstant = "deadline"
    lead: float = 0


@dataclass(frozen=True, slots=True)
class ReallocationRules:
    """How mapped jobs get their clusters, and how passes move them. ``threshold`` and ``age_limit`` are in seconds.

    Algorithm 0 moves no job, 1 moves job by job, 2 withdraws all before it places them again.
    """

    mapping: MappingRule = "mct"
    algorithm: AlgorithmNumber = 0
    heuristic: HeuristicName = "mct"
    threshold: float = 60
    age_limit: float = inf
    seed: int = 1


@dataclass(slots=True)
class PlannedTry:
    """The next try of a co-allocated job: the ``number``-th after PT0; ``last`` says that none follows."""

    number: int
    at: float
    last: bool


@dataclass(frozen=True, slots=True)
class WaitingPart:
    """A mapped job and the cluster where it waits.

    Jobs of one ``kind``, a label, end at the same time wherever they join a queue. A job that asks for less time and
    for no more processors ends sooner. None: nothing is known about that.
    """

    job: MappedJob
    cluster: str
    kind: JobId | None = None


def without(numbers: NDArray[Any], place: int) -> NDArray[Any]:
    """Return an array without one place of its last axis; the array itself is used up, as passes do this often."""
    numbers[..., place:-1] = numbers[..., place + 1 :]
    return numbers[..., :-1]


@dataclass(slots=True)
class PassInProgress:
    """A reallocation pass over ``parts``, in order of submission, of which the first ``looked_at`` are dealt with now.

    ``jobs``, ``procs``, ``here`` (the places of the clusters where they wait) and ``ects`` are in the same order.
    ``ects`` has a row for each cluster.
    """

    parts: list[WaitingPart]
    jobs: list[JobId]
    procs: Places
    here: Places
    ects: Seconds
    looked_at: int

    @classmethod
    def over(cls, parts: list[WaitingPart], places: Mapping[str, int]) -> PassInProgress:
        """Return a pass over parts on clusters with ``places``, which looks at all of them."""
        procs = np.array([part.job.procs for part in parts])
        here = np.array([places[part.cluster] for part in parts])
        ects = np.full((len(places), len(parts)), inf)
        return cls(parts, [part.job.id for part in parts], procs, here, ects, len(parts))

    def keep(self, places: Places) -> None:
        """Keep some of the parts that are looked at, by their places, and all parts behind them."""
        kept = np.concatenate((places, np.arange(self.looked_at, len(self.parts))))
        self.looked_at = len(places)
        self.parts = [self.parts[place] for place in kept]
        self.jobs = [self.jobs[place] for place in kept]
        self.procs, self.here, self.ects = self.procs[kept], self.here[kept], self.ects.take(kept, axis=1)


@dataclass(slots=True)
class WithdrawnJobs:
    """The withdrawn ``parts`` of a pass (algorithm 2), by kind; ``noted`` has their ECTs from before.

    ``kinds[k]`` has the places of the jobs of kind k that are left, the last submitted first. ``firsts[k]`` is the
    place of the job that is chosen next, the first submitted. ``jobs[k]`` is the last submitted job. Its ECTs are asked
    for the whole kind, as it stays longest; kinds are in the order of these jobs. ``procs``, ``current`` (the noted
    ECT, where choices depend on it) and ``ects`` are by kind too. Only kinds that may be chosen now are here;
    ``followers`` has the others. ``known`` has the ECTs of each job, except of the kinds that are here.
    """

    parts: list[WaitingPart]
    noted: Seconds
    followers: Followers
    known: Seconds
    kinds: list[Kind] = field(default_factory=list)
    jobs: list[JobId] = field(default_factory=list)
    procs: Places = field(init=False)
    firsts: Places = field(init=False)
    current: Seconds = field(init=False)
    ects: Seconds = field(init=False)

    @classmethod
    def of(cls, passing: PassInProgress, noted: Seconds, followers: Followers) -> WithdrawnJobs:
        """Return the jobs of a pass; ``followers`` has them by kind."""
        withdrawn = cls(passing.parts, noted, followers, passing.ects)
        withdrawn.look_further()
        return withdrawn

    @property
    def looked_at(self) -> int:
        """The number of kinds that are dealt with now."""
        return len(self.jobs)

    def look_further(self) -> bool:
        """Take in the kinds that follow, too; return False if there are none."""
        more = self.followers.leaders()
        if not more:
            return False
        if self.kinds:
            self.known[:, [kind[0] for kind in self.kinds]] = self.ects
        self.kinds = sorted([*self.kinds, *more])
        lasts = [kind[0] for kind in self.kinds]
        jobs = [self.parts[last].job for last in lasts]
        self.jobs = [job.id for job in jobs]
        self.procs = np.array([job.procs for job in jobs])
        self.firsts = np.array([kind[-1] for kind in self.kinds])
        self.current = self.noted[self.firsts]
        self.ects = self.known.take(lasts, axis=1)  # a row is in one piece, as indexing would not leave it
        return True

    def first_of(self, scores: Seconds) -> int:
        """Return the kind of the greatest score; of equal kinds the kind of the job that was submitted first."""
        best = (scores == scores[scores.argmax()]).nonzero()[0]
        return int(best[0] if len(best) == 1 else best[self.firsts[best].argmin()])

    def pop(self, kind: int) -> int:
        """Take the first job of a kind out, and return its place."""
        members = self.kinds[kind]
        place = members.pop()
        if members:
            self.firsts[kind] = members[-1]
            return place
        del self.kinds[kind], self.jobs[kind]
        self.procs, self.firsts = without(self.procs, kind), without(self.firsts, kind)
        self.current, self.ects = without(self.current, kind), without(self.ects, kind)
        return place


Passing = PassInProgress | WithdrawnJobs
"""A pass, before and after the jobs are withdrawn."""


@dataclass(slots=True)
class BrokerState:
    """The memory of a broker between two events. The order of ``clusters`` is the configured order."""

    clusters: tuple[GridCluster, ...]
    deadlines: DeadlineRules = field(default_factory=DeadlineRules)
    reallocation: ReallocationRules = field(default_factory=ReallocationRules)
    coallocated: dict[JobId, CoAllocatedJob] = field(default_factory=dict)
    tries: dict[JobId, PlannedTry] = field(default_factory=dict)
    turn: int = 0
    """The place from which round robin goes on."""
    memory: dict[str, Any] = field(default_factory=dict)
    """The memory of further systems, by their names."""
    chance: Random = field(init=False)
    passing: Passing | None = None
    places: Mapping[str, int] = field(init=False)
    """The place of each cluster in the configured order."""

    def __post_init__(self) -> None:
        """Number the clusters, and begin the random numbers."""
        self.places = {cluster.name: place for place, cluster in enumerate(self.clusters)}
        self.chance = Random(self.reallocation.seed)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all clusters."""
        return tuple(self.places)
