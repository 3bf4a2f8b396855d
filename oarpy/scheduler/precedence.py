"""Who gives way to whom: queues and projects have levels, and best-effort jobs are on the lowest.

A queue may name other queues that its jobs give way to; it is below each of them then. Queues that name none are on the
top level, 0. So it is with projects where they pay, and a project is at least as deep as the one above it. The level of
a job is that of its queue or of its project, whichever is deeper. A job may take the resources of running jobs on
deeper levels, and never those of its own level or a higher one. What is promised, the place of an accepted reservation
that has not begun, is taken by nobody: it counts as held on the top level, but for best-effort jobs::

    0  default, night      give way to nobody
    1  guests              gives way to default
    2  spare               gives way to guests
    .  best-effort jobs    give way to all others
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Final

from oarpy.scheduler.levels import depths
from oarpy.scheduler.snapshot import HoldingJob, Queue, Snapshot, WaitingJob

Job = WaitingJob | HoldingJob
LOWEST: Final = 1_000_000
"""The level of best-effort jobs."""


class Precedence:
    """The levels of the jobs of a snapshot."""

    def __init__(self, queues: Mapping[str, int], projects: Mapping[str, int], snapshot: Snapshot) -> None:
        self._queues, self._projects, self._snapshot = queues, projects, snapshot

    @classmethod
    def of(cls, snapshot: Snapshot) -> Precedence:
        """Return the levels by the queues and projects of ``snapshot``."""
        projects = snapshot.projects
        return cls(_levels_of(snapshot.queues), {} if projects is None else projects.levels, snapshot)

    @property
    def levelled(self) -> bool:
        """Whether other jobs than best-effort ones may give way."""
        return any(self._queues.values()) or any(self._projects.values())

    def depth(self, job: Job) -> int:
        """Return the level of a job: 0 if it gives way to nobody, :data:`LOWEST` if it is best-effort."""
        if job.besteffort:
            return LOWEST
        level = self.level(job.queue, job.project)
        return 0 if level and isinstance(job, HoldingJob) and self._is_promised(job) else level

    def level(self, queue: str, project: str) -> int:
        """Return the level of the jobs of a queue and a project."""
        level = self._queues.get(queue, 0)
        return max(level, self._projects.get(project, 0)) if self._projects else level

    def _is_promised(self, job: HoldingJob) -> bool:
        """Tell whether a job that holds resources has not begun; a reservation may wait for a while after its date."""
        return job.start > self._snapshot.now or job.id in self._reserved

    @cached_property
    def _reserved(self) -> frozenset[int]:
        return frozenset(reservation.job.id for reservation in self._snapshot.reservations)

    def yields(self, holder: Job, other: Job) -> bool:
        """Tell whether ``holder`` gives way to ``other``."""
        return self.depth(holder) > self.depth(other)


@lru_cache(maxsize=64)
def _levels_of(queues: tuple[Queue, ...]) -> Mapping[str, int]:
    """Return the levels of the queues that give way."""
    return depths({queue.name: queue.gives_way_to for queue in queues if queue.gives_way_to})
