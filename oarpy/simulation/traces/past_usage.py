"""Who used and asked for how much lately, at an instant of a replay: what orders by fair share look at."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from oarpy.scheduler.order.queue_orders import looks_back
from oarpy.scheduler.order.usage_shares import Priorities, Usage
from oarpy.scheduler.snapshot import HoldingJob, Snapshot


@dataclass(frozen=True, slots=True)
class _Ended:
    """What one job used and asked for (resource-seconds), and when it ended."""

    end: float
    user: str
    project: str
    used: float
    asked: float

    @classmethod
    def of(cls, job: HoldingJob, end: float) -> _Ended:
        """Return what ``job`` used up to ``end``, and asked for."""
        size = len(job.resources) if job.bits is None else job.bits.bit_count()
        return cls(end, job.user, job.project, size * (end - job.start), size * job.walltime)


@dataclass(slots=True)
class PastUsage:
    """Sums over the jobs that ended in the last ``window`` seconds of the replay, and what the running ones had so far.

    Best-effort jobs do not count: what they use is taken from nobody. The replay begins with nothing used.
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
        """Return what is known at ``now``."""
        if not self.watched_at_all:
            return self.known
        while self._ended and self._ended[0].end < now - self.window:
            self._ended.popleft()
        used: dict[str, float] = {}
        asked: dict[str, float] = {}
        by_project: dict[str, float] = {}
        running = (_Ended.of(job, now) for job in holding if job.start <= now and not job.besteffort)
        for one in (*self._ended, *running):
            used[one.user] = used.get(one.user, 0) + one.used
            asked[one.user] = asked.get(one.user, 0) + one.asked
            by_project[one.project] = by_project.get(one.project, 0) + one.used
        return replace(self.known, usage=Usage(used, asked, by_project))
