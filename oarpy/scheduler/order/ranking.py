"""The queues that are planned together, and the order of their jobs: this module alone decides both."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from oarpy.scheduler.order.queue_orders import OF_THE_JOB_ALONE, Candidate, Order
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


@dataclass(frozen=True, slots=True)
class Ranked:
    """The jobs of queues planned together, in order, with their sort keys, least first.

    ``broken`` are the queues whose order failed, with the error. Their jobs are not in order; the jobs of the others
    are.
    """

    jobs: list[WaitingJob]
    keys: Mapping[int, tuple[float, ...]]
    broken: Mapping[str, str] = field(default_factory=dict)


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

    def of_queues(self, jobs: Sequence[WaitingJob], queues: Iterable[Queue]) -> Ranked:
        """Order the jobs of merged queues by the order of the first queue whose order does not fail."""
        broken: dict[str, str] = {}
        for queue in queues:
            some = [job for job in jobs if job.queue not in broken] if broken else jobs
            try:
                return Ranked(*self._ordered(some, queue), broken)
            except BrokenOrder as failure:
                broken[queue.name] = str(failure)
        return Ranked([], {}, broken)

    def ordered(self, jobs: Sequence[WaitingJob], queue: Queue) -> list[WaitingJob]:
        """Order ``jobs`` in the order of ``queue``. Raises :class:`BrokenOrder`."""
        return self._ordered(jobs, queue)[0]

    def behind(self, known: Sequence[WaitingJob], fresh: Sequence[WaitingJob], queue: Queue) -> list[WaitingJob] | None:
        """Return ``fresh`` jobs in order if they all go behind the ``known`` jobs, which keep their order; else None.

        Raises :class:`BrokenOrder`.
        """
        # where two jobs never change places, the last one stands for all
        moved = any(job.ranked is not None or job.nice for job in (*known, *fresh))
        fixed = self._orders.get(queue.order) in OF_THE_JOB_ALONE and not moved
        known = list(known[-1:] if fixed else known)
        if not fresh and len(known) <= 1:
            return []
        ordered = self.ordered([*known, *fresh], queue)
        return ordered[len(known) :] if ordered[: len(known)] == known else None

    def _ordered(
        self, jobs: Sequence[WaitingJob], queue: Queue
    ) -> tuple[list[WaitingJob], dict[int, tuple[float, ...]]]:
        order = self._orders.get(queue.order)
        if order is None:
            raise BrokenOrder(queue, "does not exist")
        try:
            ranks = {job.id: order(Candidate(job, self._now, self._size, self._priorities)) for job in jobs}
            return _with_applications(_by_nice(sorted(jobs, key=lambda job: ranks[job.id]))), ranks
        except Exception as error:  # a plug-in may raise anything
            what = " ".join(str(error).split())  # a message is one line
            raise BrokenOrder(queue, f"failed: {type(error).__name__}: {what}") from error


def _by_nice(ordered: list[WaitingJob]) -> list[WaitingJob]:
    """Give the places of each user's jobs to the same jobs, the least nice first; other users' jobs do not move.

    Applications keep their places.
    """
    users = {job.user for job in ordered if job.nice and job.ranked is None}
    if not users:
        return ordered
    lines: dict[str, list[WaitingJob]] = {user: [] for user in users}
    for job in ordered:
        if job.user in users and job.ranked is None:
            lines[job.user].append(job)
    turns = {user: iter(sorted(jobs, key=lambda job: job.nice)) for user, jobs in lines.items()}
    return [next(turns[job.user]) if job.user in users and job.ranked is None else job for job in ordered]


def _with_applications(ordered: list[WaitingJob]) -> list[WaitingJob]:
    """Put applications at the places given by the instants that rank them.

    Jobs submitted before such an instant stay ahead of the application, other jobs behind. Between two applications the
    queue's order sorts the jobs.
    """
    applications = sorted(
        (job for job in ordered if job.ranked is not None), key=lambda job: (job.ranked or 0.0, job.id)
    )
    if not applications:
        return ordered
    instants = [job.ranked or 0.0 for job in applications]
    between: list[list[WaitingJob]] = [[] for _ in range(len(applications) + 1)]
    for job in ordered:
        if job.ranked is None:
            between[bisect_right(instants, job.submitted)].append(job)
    line = between[0]
    for application, behind in zip(applications, between[1:], strict=True):
        line += [application, *behind]
    return line
