"""Programs whose processes are mapped over cores of several clusters: the place decides how long they take there.

::

    walltime so far --> place --> cores by cluster and type of nodes --> map --> seconds --> walltime
         ^                                                                                      |
         '---------- another walltime: place again, five times; then the longest stands --------'

The first walltime is that on the slowest type alone. A longer one that a later place needs is taken too: no walltime is
too short for its map. After an early end on a cluster a *shift* keeps cores and map. A *remap* makes both anew, and is
taken only if the job ends earlier.

After chapter 5 of M. A. S. Netto, "Adaptive Co-Allocation of Distributed Resources for Parallel Applications" (2009).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from math import fsum, inf

from oarpy.grid.core.broker_state import BrokerState, JobId
from oarpy.grid.core.coallocation.common_start import (
    CommonPlace,
    CoProvider,
    ParallelRequest,
    Parts,
    common_place,
    in_turn,
    instants_from,
)
from oarpy.grid.core.coallocation.early_end import Operation
from oarpy.grid.core.coallocation.typed_cores import TypedCores, TypedHold
from oarpy.grid.core.exchanges import Action, Event, System
from oarpy.grid.core.metajobs import RefuseJob, Steps, profile_of
from oarpy.processes.dealing import Share, shares
from oarpy.processes.mapping import ProcessMap, Program
from oarpy.processes.models import LONGEST, ROUNDS, bounded, mapped_or_usual, walltime_of
from oarpy.profiles.profile import first_common_start

_MOST_ROUNDS = 100
"""How often a program is placed with longer and longer walltimes, until it has no place."""
Cores = Mapping[str, Mapping[str, int]]
"""Cores by cluster and type of nodes."""


@dataclass(frozen=True, slots=True)
class MappedProgram:
    """The request of a program: its processes, and ``procs`` cores, at most ``at_most`` of them on single clusters.

    ``transfer`` are the seconds to pass on the result of a process between clusters. ``links`` has others by two
    clusters, in the order of their names; the slowest of a place counts. A walltime exceeds the prediction by
    ``margin`` percent. The cluster ``first`` is asked first. The program is to be over by ``end_by``.
    """

    id: JobId
    processes: int
    iterations: int
    model: str
    procs: int
    transfer: float
    margin: int
    first: str
    at_most: Parts
    end_by: float = inf
    links: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TypeTold:
    """The rates of all sizes of a program on a type of nodes, and the cores of that type that are free."""

    rates: Mapping[str, float]
    free: Steps


Told = Mapping[str, Mapping[str, TypeTold]]
"""The answers of clusters, by cluster and type of nodes."""


@dataclass(frozen=True, slots=True)
class MappedPlace:
    """A place, and the map that goes with it: ``assigned`` has for each cluster and type what its cores run.

    The program takes ``seconds``. ``fault`` says why another model than that of the job was used.
    """

    place: CommonPlace
    cores: Cores
    seconds: float
    assigned: Mapping[str, Mapping[str, tuple[Share, ...]]]
    fault: str = ""


@dataclass(frozen=True, slots=True)
class ProgramSlotsTold(Event):
    """The rates and free slots of clusters, for a program without a place. It starts at ``ready`` at the earliest."""

    job: MappedProgram
    told: Told
    ready: float


@dataclass(frozen=True, slots=True)
class ProgramEndedEarly(Event):
    """A job ended early on the cluster ``where``; ``told`` has the free slots then, the program's own cores included.

    The program has ``mapped`` now. It moves only if it ends ``threshold`` seconds earlier.
    """

    where: str
    job: MappedProgram
    mapped: MappedPlace
    operation: Operation
    told: Told
    ready: float
    threshold: float


@dataclass(frozen=True, slots=True)
class ReserveMapped(Action):
    """Hold a program's parts on all its clusters."""

    job: JobId
    mapped: MappedPlace


@dataclass(frozen=True, slots=True)
class AmendMapped(Action):
    """Hold a program's parts in another place, and give up the old one."""

    job: JobId
    mapped: MappedPlace


def place(state: BrokerState, event: ProgramSlotsTold, now: float) -> list[Action]:
    """Give a program its earliest place, with the walltime that its map needs there."""
    mapped = _placed(state, event.job, event.told, max(event.ready, now))
    return [RefuseJob(event.job.id) if mapped is None else ReserveMapped(event.job.id, mapped)]


def bring_forward(state: BrokerState, event: ProgramEndedEarly, now: float) -> list[Action]:
    """Give a program an earlier end, if the gain reaches its threshold."""
    lo = max(event.ready, now)
    if event.operation == "rigid" or not _cores(event.told[event.where]).free(now):
        return []
    moved = _shifted(event, lo) if event.operation == "shift" else _placed(state, event.job, event.told, lo)
    old = event.mapped.place.end
    worth = moved is not None and moved.place.end < old and moved.place.end + event.threshold <= old
    return [AmendMapped(event.job.id, moved)] if moved is not None and worth else []


def _shifted(event: ProgramEndedEarly, lo: float) -> MappedPlace | None:
    """Return the same map on the same cores, with the earliest start before the present one."""
    old = event.mapped.place
    parts = [
        (profile_of(event.told[cluster][kind].free), count)
        for cluster, kinds in event.mapped.cores.items()
        for kind, count in kinds.items()
        if kind in event.told[cluster]
    ]
    if len(parts) < sum(map(len, event.mapped.cores.values())):
        return None
    time = old.end - old.start
    start = first_common_start(parts, time, lo, old.start)
    if not start < old.start:
        return None
    moved = CommonPlace(start, start + time, old.parts)
    return MappedPlace(moved, event.mapped.cores, event.mapped.seconds, event.mapped.assigned)


def _placed(state: BrokerState, job: MappedProgram, told: Told, lo: float) -> MappedPlace | None:
    """Return the earliest place, and the map there; None without room, or if the program would be over too late."""
    names = [name for name in in_turn(state.names, job.first) if told.get(name)]
    if not names:
        return None
    clusters = {name: _cores(told[name]) for name in names}
    wanted = _slowest(job, told, names)
    longest = 0
    for turn in range(_MOST_ROUNDS):
        found = _earliest(job, clusters, wanted, lo)
        if found is None:
            return None
        cores = _shares(clusters, found)
        process_map, fault = _mapped(job, told, cores)
        needed = walltime_of(process_map.seconds, job.margin)
        if needed == wanted or (needed < wanted and turn >= ROUNDS):
            return _with_map(job, told, found, cores, process_map, fault) if found.end <= job.end_by else None
        longest = max(longest, wanted, needed)
        wanted = needed if turn + 1 < ROUNDS else longest
    return None


def _cores(types: Mapping[str, TypeTold]) -> TypedCores:
    """Return the free cores of a cluster, the fastest type first."""
    order = sorted(types, key=lambda kind: -fsum(types[kind].rates.values()))
    return TypedCores({kind: profile_of(types[kind].free) for kind in order})


def _slowest(job: MappedProgram, told: Told, names: list[str]) -> int:
    """Return the walltime on cores of the slowest type alone."""
    alone = ({name: {kind: job.procs}} for name in names for kind in told[name])
    return max(walltime_of(_mapped(job, told, cores)[0].seconds, job.margin) for cores in alone)


def _earliest(job: MappedProgram, clusters: Mapping[str, TypedCores], walltime: float, lo: float) -> CommonPlace | None:
    """Return the earliest place: one cluster with room for all comes before several. All clusters have speed 1."""
    turn: list[CoProvider[TypedHold]] = [CoProvider(name, 1, cores) for name, cores in clusters.items()]
    request = ParallelRequest(job.procs, walltime, 0, job.at_most)
    return common_place(turn, request, instants_from(turn, lo))


def _shares(clusters: Mapping[str, TypedCores], found: CommonPlace) -> Cores:
    """Return the cores of a place by type."""
    time = found.end - found.start
    return {name: clusters[name].shares(procs, found.start, time) for name, procs in found.parts.items()}


def _mapped(job: MappedProgram, told: Told, cores: Cores) -> tuple[ProcessMap, str]:
    """Return the map over cores, and why it is of another model; types are named ``cluster/type``."""
    counted = {f"{name}/{kind}": count for name, kinds in cores.items() for kind, count in kinds.items()}
    rates = {f"{name}/{kind}": told[name][kind].rates for name, kinds in cores.items() for kind in kinds}
    program = Program(job.processes, job.iterations, _transfer(job, cores))
    process_map, fault = mapped_or_usual(job.model, counted, rates, program)
    return bounded(process_map), fault


def _transfer(job: MappedProgram, cores: Cores) -> float:
    """Return the seconds to pass on a result; nothing on one cluster."""
    pairs = combinations(sorted(cores), 2)
    return max((job.links.get(one, {}).get(other, job.transfer) for one, other in pairs), default=0)


def _with_map(
    job: MappedProgram, told: Told, found: CommonPlace, cores: Cores, process_map: ProcessMap, fault: str
) -> MappedPlace:
    def runs(cluster: str, kind: str) -> tuple[Share, ...]:
        rates = told[cluster][kind].rates
        return shares(process_map, f"{cluster}/{kind}", lambda size: min(job.iterations / rates[size], LONGEST))

    assigned = {cluster: {kind: runs(cluster, kind) for kind in kinds} for cluster, kinds in cores.items()}
    return MappedPlace(found, cores, process_map.seconds, assigned, fault)


SYSTEM = System(
    "mapped programs",
    {ProgramSlotsTold: place, ProgramEndedEarly: bring_forward},
    (ReserveMapped, AmendMapped, RefuseJob),
    values=(MappedProgram, TypeTold, MappedPlace, CommonPlace),
)
