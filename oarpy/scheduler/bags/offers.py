"""The promises that a cluster can make for a bag: a number of tasks done by an instant.

*With a deadline* the cluster plans by deadlines (EDF). New tasks are feasible if no job misses its deadline when all
are planned anew with them. They are also feasible if they end in time beside the *base plan*, which is the present
plan.

Tasks that are not feasible get a later deadline, by bisection between the requested deadline and their end beside the
base plan. All deadlines between the deadlines of two neighbours in the queue give the same plan, so few plans are made.

*Without a deadline* tasks are placed beside everything that is planned, and no other job moves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, inf
from typing import Generic, NamedTuple, TypeVar

from oarpy.profiles.planned import JobId, id_order
from oarpy.profiles.timeline import Processors
from oarpy.scheduler.bags.tasks import TaskGroup, Tasks, hold_planned, last_end, place

Hold = TypeVar("Hold")


class BagOffer(NamedTuple):
    """An offer: ``tasks`` tasks, all of which end by ``end``."""

    tasks: int
    end: float


@dataclass(frozen=True, slots=True)
class DeadlineJob:
    """A job, or the part of a bag on this cluster, with a deadline; ``planned`` has the present places of its tasks."""

    id: JobId
    tasks: Tasks
    deadline: float
    ready: float = -inf
    submitted: float = 0
    planned: Sequence[TaskGroup] = ()

    @property
    def order(self) -> tuple[float, float, tuple[bool, int, str]]:
        """The sort key of the queue: deadline, submission, id."""
        return self.deadline, self.submitted, id_order(self.id)


Plan = Mapping[JobId, Sequence[TaskGroup]]
"""The planned places of the tasks of each job."""


class DeadlinePlans(Generic[Hold]):
    """Plans of the waiting jobs of a cluster at an instant.

    The timeline holds the running jobs, and nothing else after each call. If ``listed``, plans name all groups of
    tasks, as needed to carry them out. Otherwise the plans of very many tasks may lack some groups.
    """

    def __init__(
        self, timeline: Processors[Hold], waiting: Iterable[DeadlineJob], now: float, listed: bool = False
    ) -> None:
        self._timeline, self._now, self._listed = timeline, now, listed
        self._queue = sorted(waiting, key=lambda job: job.order)
        self._deadlines = [job.deadline for job in self._queue]
        self._base: list[Sequence[TaskGroup]] | None = None

    def base(self) -> Plan:
        """Return the plan by deadlines if no job is late in it, else the present plan if all jobs have a place."""
        return {job.id: groups for job, groups in zip(self._queue, self._base_groups(), strict=True)}

    def anew(self, new: DeadlineJob) -> Plan | None:
        """Return the plan by deadlines with a new job behind the others of its deadline; None if a job is late."""
        behind = bisect_right(self._deadlines, new.deadline)
        queue = [*self._queue[:behind], new, *self._queue[behind:]]
        planned = self._by_deadlines(queue)
        return None if planned is None else {job.id: groups for job, groups in zip(queue, planned, strict=True)}

    def beside(self, tasks: Tasks, sizes: Sequence[int]) -> list[list[TaskGroup]]:
        """Return the places of tasks beside the base plan, for rising numbers of tasks."""
        holds: list[Hold] = []
        for job, planned in zip(self._queue, self._base_groups(), strict=True):
            holds += hold_planned(self._timeline, planned, job.tasks)
        places: list[list[TaskGroup]] = []
        groups: list[TaskGroup] = []
        for size, before in zip(sizes, (0, *sizes), strict=False):
            lo = groups[-1].start if groups else self._now
            more, held = place(self._timeline, replace(tasks, count=size - before), lo, self._listed)
            groups, holds = groups + more, holds + held
            places.append(groups)
        self._give_back(holds)
        return places

    def offers(self, tasks: Tasks, deadline: float, shares: Iterable[int]) -> list[BagOffer]:
        """Return offers for shares (%) of a bag with a deadline."""
        sizes = sizes_of(tasks.count, shares)
        ends = [last_end(groups, tasks.time) for groups in self.beside(tasks, sizes)]
        return worth_telling(
            BagOffer(size, self._promise(replace(tasks, count=size), deadline, end))
            for size, end in zip(sizes, ends, strict=True)
        )

    def _promise(self, tasks: Tasks, deadline: float, end_beside: float) -> float:
        """Return the deadline if it is feasible, else the earliest later deadline that bisection finds."""
        ends: dict[int, float] = {}

        def feasible(by: float) -> bool:
            behind = bisect_right(self._deadlines, by)
            if behind not in ends:
                new = DeadlineJob("", tasks, inf)
                planned = self._by_deadlines([*self._queue[:behind], new, *self._queue[behind:]])
                ends[behind] = inf if planned is None else last_end(planned[behind], tasks.time)
            return ends[behind] <= by

        if end_beside <= deadline or feasible(deadline):
            return deadline
        lo, hi = deadline, end_beside
        while hi - lo > 1:
            mid = float(floor((lo + hi) / 2))
            if mid <= lo:
                break
            lo, hi = (lo, mid) if feasible(mid) else (mid, hi)
        return hi

    def _base_groups(self) -> list[Sequence[TaskGroup]]:
        if self._base is None:
            on_time = self._by_deadlines(self._queue)
            if on_time is not None:
                self._base = on_time
            elif all(job.planned for job in self._queue):
                self._base = [job.planned for job in self._queue]
            else:
                self._base = self._by_deadlines(self._queue, late=True)
        assert self._base is not None
        return self._base

    def _by_deadlines(self, queue: Iterable[DeadlineJob], late: bool = False) -> list[Sequence[TaskGroup]] | None:
        """Place each job in turn at its earliest place; return None if one is late, unless that may be."""
        planned: list[Sequence[TaskGroup]] = []
        holds: list[Hold] = []
        on_time = True
        for job in queue:
            groups, held = place(self._timeline, job.tasks, max(job.ready, self._now), self._listed)
            planned.append(groups)
            holds += held
            if last_end(groups, job.tasks.time) > job.deadline and not late:
                on_time = False
                break
        self._give_back(holds)
        return planned if on_time else None

    def _give_back(self, holds: Sequence[Hold]) -> None:
        for hold in reversed(holds):
            self._timeline.give_back(hold)


def offers_beside(timeline: Processors[Hold], tasks: Tasks, shares: Iterable[int], now: float) -> list[BagOffer]:
    """Return offers for shares (%) of a bag without a deadline; the timeline holds running and planned jobs."""
    sizes = sizes_of(tasks.count, shares)
    places = DeadlinePlans(timeline, (), now).beside(tasks, sizes)
    return worth_telling(
        BagOffer(size, last_end(groups, tasks.time)) for size, groups in zip(sizes, places, strict=True)
    )


def sizes_of(tasks: int, shares: Iterable[int]) -> list[int]:
    """Return the numbers of tasks in shares (%) of a bag, rounded up, rising, each number once."""
    return sorted({-(-tasks * share // 100) for share in shares})


def worth_telling(offers: Iterable[BagOffer]) -> list[BagOffer]:
    """Return only the offers that end earlier than all larger ones; ``offers`` come by rising size."""
    kept: list[BagOffer] = []
    for offer in reversed(list(offers)):
        if not kept or offer.end < kept[-1].end:
            kept.append(offer)
    return kept[::-1]
