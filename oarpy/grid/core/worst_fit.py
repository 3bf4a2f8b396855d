"""Where components go: Worst Fit, one after the other to the cluster with most idle processors, all or none.

From "Simulating grid schedulers with deadlines and co-allocation". A component that does not fit may evict local jobs,
where fewest have to go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oarpy.grid.core.broker_state import CoAllocatedJob, GridCluster, JobId
from oarpy.grid.core.exchanges import LocalJob


@dataclass(frozen=True, slots=True)
class FoundRoom:
    """The cluster of each component, in the order of placing, and the local jobs that have to go for them."""

    clusters: tuple[str, ...]
    evicted: tuple[JobId, ...]


def find_room(
    job: CoAllocatedJob,
    clusters: Sequence[GridCluster],
    idle: Mapping[str, int],
    evictable: Mapping[str, Sequence[LocalJob]],
) -> FoundRoom | None:
    """Return room for all components, None if there is none.

    ``evictable`` has by cluster the jobs in order of eviction.
    """
    if _never_fit(job, idle, evictable):
        return None
    left = dict(idle)
    running = {name: list(jobs) for name, jobs in evictable.items()}
    evicted: dict[str, list[JobId]] = {cluster.name: [] for cluster in clusters}
    placed = []
    for _ in range(job.components):
        best = max(clusters, key=lambda cluster: left[cluster.name]).name
        if left[best] < job.procs:
            fewest = _fewest(job.procs, clusters, left, running)
            if fewest is None:
                return None
            best, count = fewest
            gone, running[best] = running[best][:count], running[best][count:]
            left[best] += sum(victim.procs for victim in gone)
            evicted[best] += [victim.id for victim in gone]
        left[best] -= job.procs
        placed.append(best)
    return FoundRoom(tuple(placed), tuple(victim for gone in evicted.values() for victim in gone))


def _never_fit(job: CoAllocatedJob, idle: Mapping[str, int], evictable: Mapping[str, Sequence[LocalJob]]) -> bool:
    """Tell whether there are too many components, whichever jobs are evicted; the number may be too large to count."""
    room = (procs + sum(victim.procs for victim in evictable.get(name, ())) for name, procs in idle.items())
    return sum(procs // job.procs for procs in room) < job.components


def _fewest(
    procs: int, clusters: Sequence[GridCluster], idle: Mapping[str, int], running: Mapping[str, Sequence[LocalJob]]
) -> tuple[str, int] | None:
    """Return the cluster where fewest local jobs have to go so that ``procs`` are idle, and their number.

    Return None if nowhere enough do.
    """
    best: tuple[int, int] | None = None
    name = ""
    for cluster in clusters:
        count = _needed(procs - idle[cluster.name], running.get(cluster.name, ())) if cluster.evict else None
        if count is not None and (best is None or (count, -idle[cluster.name]) < best):
            best, name = (count, -idle[cluster.name]), cluster.name
    return None if best is None else (name, best[0])


def _needed(missing: int, running: Sequence[LocalJob]) -> int | None:
    """Return how many jobs, from the first on, free ``missing`` processors; None if all of them do not."""
    for count, job in enumerate(running, 1):
        missing -= job.procs
        if missing <= 0:
            return count
    return None
