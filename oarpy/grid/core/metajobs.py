"""Parallel jobs over clusters: their places by the free slots of clusters, and earlier places after an early end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from oarpy.grid.core.broker_state import BrokerState, GridCluster, JobId
from oarpy.grid.core.coallocation.common_start import (
    CommonPlace,
    CoProvider,
    ParallelRequest,
    common_place,
    in_turn,
    instants_from,
)
from oarpy.grid.core.coallocation.early_end import Metajob, Operation, PlannedClusters
from oarpy.grid.core.exchanges import Action, Event, System
from oarpy.profiles.profile import CountedHold, Profile

Steps = Sequence[tuple[float, int]]
"""Processors that are free from each instant until the next one, rising."""


@dataclass(frozen=True, slots=True)
class ParallelJob:
    """The request of a parallel job, and the cluster that is asked first when it is placed."""

    id: JobId
    request: ParallelRequest
    first: str


@dataclass(frozen=True, slots=True)
class SlotsTold(Event):
    """The free slots of clusters, for a job that has no place yet and may start at ``ready`` at the earliest."""

    job: ParallelJob
    free: Mapping[str, Steps]
    ready: float


@dataclass(frozen=True, slots=True)
class EndedEarly(Event):
    """A job ended early on the cluster ``where``.

    ``free`` has the processors that are free then, ``job``'s own included. The job has ``place`` now. It may start at
    ``ready`` at the earliest, and moves only if it ends ``threshold`` seconds earlier.
    """

    where: str
    job: ParallelJob
    place: CommonPlace
    operation: Operation
    free: Mapping[str, Steps]
    ready: float
    threshold: float


@dataclass(frozen=True, slots=True)
class ReserveParts(Action):
    """Hold a job's parts on all its clusters."""

    job: JobId
    place: CommonPlace


@dataclass(frozen=True, slots=True)
class AmendParts(Action):
    """Hold a job's parts in another place, and give up the old one."""

    job: JobId
    place: CommonPlace


@dataclass(frozen=True, slots=True)
class RefuseJob(Action):
    """A job has no place at present."""

    job: JobId


def place(state: BrokerState, event: SlotsTold, now: float) -> list[Action]:
    """Give a job its earliest place on the clusters that answered with their free processors."""
    job, clusters = event.job, [cluster for cluster in state.clusters if cluster.name in event.free]
    if not clusters:
        return [RefuseJob(job.id)]
    providers = {cluster.name: _provider(cluster, event.free[cluster.name]) for cluster in clusters}
    turn = [providers[name] for name in in_turn(state.names, job.first) if name in providers]
    common = common_place(turn, job.request, instants_from(turn, max(event.ready, now)))
    return [RefuseJob(job.id) if common is None else ReserveParts(job.id, common)]


def bring_forward(state: BrokerState, event: EndedEarly, now: float) -> list[Action]:
    """Give a job an earlier end, if the gain reaches its threshold."""
    clusters = [cluster for cluster in state.clusters if cluster.name in event.free]
    providers = [_provider(cluster, event.free[cluster.name]) for cluster in clusters]
    first = next(name for name in in_turn(state.names, event.job.first) if name in event.free)
    waiting: list[Metajob[CountedHold]] = []
    planned = PlannedClusters(providers, {provider.name: () for provider in providers}, waiting)
    held = planned.hold(event.place)
    waiting.append(Metajob(event.job.id, event.job.request, event.ready, first, event.place, held))
    planned.after_early_end(event.where, event.operation, now)
    moved = waiting[0].place
    worth = moved != event.place and moved.end + event.threshold <= event.place.end
    return [AmendParts(event.job.id, moved)] if worth else []


def _provider(cluster: GridCluster, steps: Steps) -> CoProvider[CountedHold]:
    return CoProvider(cluster.name, cluster.speed, profile_of(steps))


def profile_of(steps: Steps) -> Profile:
    """Return free processors over time; the last step holds for ever."""
    profile = Profile(steps[-1][1], steps[0][0])
    for (begin, free), (end, _) in pairwise(steps):
        if free != profile.procs:
            profile.take(begin, end, profile.procs - free)
    return profile


SYSTEM = System(
    "metajobs",
    {SlotsTold: place, EndedEarly: bring_forward},
    (ReserveParts, AmendParts, RefuseJob),
    values=(ParallelJob, ParallelRequest, CommonPlace),
)
