"""Which queues are planned together, and in which order their jobs are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

from oarpy.scheduler.order.queue_orders import Candidate, Order
from oarpy.scheduler.order.usage_shares import NO_HISTORY, Priorities
from oarpy.scheduler.snapshot import Queue, WaitingJob


class BrokenOrder(Exception):
    """The order of a queue does not exist or raised."""

    def __init__(self, queue: Queue, reason: str) -> None:
        super().__init__(f"policy '{queue.order}' of queue '{queue.name}' {reason}")
        self.queue = queue


def by_priority(queues: Iterable[Queue]) -> list[tuple[Queue, ...]]:
    """Return the queues by decreasing priority, those of equal priority together."""
    ordered = sorted(queues, key=lambda queue: -queue.priority)
    return [tuple(group) for _, group in groupby(ordered, key=lambda queue: queue.priority)]


class Ranking:
    """Orders the jobs of merged queues; ``size`` tells how many resources a job takes on an empty platform."""

    def __init__(
        self,
        orders: Mapping[str, Order],
        size: Callable[[WaitingJob], int],
        now: float,
        priorities: Priorities = NO_HISTORY,
    ) -> None:
        self._orders, self._size, self._now, self._priorities = orders, size, now, priorities

    def ordered(self, jobs: Sequence[WaitingJob], queue: Queue) -> list[WaitingJob]:
        """Order ``jobs`` in the order of ``queue``. Raises :class:`BrokenOrder`."""
        return self.ordered_with_keys(jobs, queue)[0]

    def ordered_with_keys(
        self, jobs: Sequence[WaitingJob], queue: Queue
    ) -> tuple[list[WaitingJob], dict[int, tuple[float, ...]]]:
        """Order ``jobs``, and return what they were ordered by, least first. Raises :class:`BrokenOrder`."""
        order = self._orders.get(queue.order)
        if order is None:
            raise BrokenOrder(queue, "does not exist")
        try:
            ranks = {job.id: order(Candidate(job, self._now, self._size, self._priorities)) for job in jobs}
            return sorted(jobs, key=lambda job: ranks[job.id]), ranks
        except Exception as error:  # a plug-in may raise anything
            what = " ".join(str(error).split())  # a message is one line
            raise BrokenOrder(queue, f"failed: {type(error).__name__}: {what}") from error
