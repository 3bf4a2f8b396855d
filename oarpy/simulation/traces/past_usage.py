"""The recent usage and requests of each user, at an instant of a replay: the input of orders by fair share."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from oarpy.scheduler.order.queue_orders import looks_back
from oarpy.scheduler.order.usage_shares import Priorities, Usage
from oarpy.scheduler.snapshot import HoldingJob, Snapshot


@dataclass(frozen=True, slots=True)
class _Ended:
    """The usage and the request of one job (resource-seconds), and its end."""

    end: float
    user: str
    project: str
    used: float
    requested: float

    @classmethod
    def of(cls, job: HoldingJob, end: float) -> _Ended:
        """Return the usage of ``job`` up to ``end``, and its request."""
        size = len(job.resources) if job.bits is None else job.bits.bit_count()
        return cls(end, job.user, job.project, size * (end - job.start), size * job.walltime)


@dataclass(slots=True)
class PastUsage:
    """Sums over the jobs that ended in the last ``window`` seconds of the replay, and over the running ones so far.

    Best-effort jobs do not count: they only use resources that no other job needs. The replay begins with nothing used.
    """

    known: Priorities
    window: float
    watched_at_all: bool
    _ended: deque[_Ended] = field(default_factory=deque)

    @classmethod
    def watched(cls, base: Snapshot, window: float) -> PastUsage:
        """Return the usage of a replay of ``base``; nothing is kept when no queue's order looks at it."""
        needed = any(looks_back(queue.order) for queue in base.queues)
        return cls(base.priorities, window, needed)

    def add(self, job: HoldingJob, end: float) -> None:
        """Count a job that has ended."""
        if self.watched_at_all and not job.besteffort:
            self._ended.append(_Ended.of(job, end))

    def priorities(self, now: float, holding: Iterable[HoldingJob]) -> Priorities:
        """Return the usage at ``now``."""
        if not self.watched_at_all:
            return self.known
        while self._ended and self._ended[0].end < now - self.window:
            self._ended.popleft()
        used: dict[str, float] = {}
        requested: dict[str, float] = {}
        by_project: dict[str, float] = {}
        running = (_Ended.of(job, now) for job in holding if job.start <= now and not job.besteffort)
        for job in (*self._ended, *running):
            used[job.user] = used.get(job.user, 0) + job.used
            requested[job.user] = requested.get(job.user, 0) + job.requested
            by_project[job.project] = by_project.get(job.project, 0) + job.used
        return replace(self.known, usage=Usage(used, requested, by_project, self.known.usage.tree))
