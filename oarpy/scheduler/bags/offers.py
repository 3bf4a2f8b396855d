"""The promises that a cluster can make for a bag: a number of tasks done by an instant.

*With a deadline* the cluster plans by deadlines (EDF). New tasks are feasible if no job misses its deadline when all
are planned anew with them. They are also feasible if they end in time beside the *base plan*, which is the present
plan.

Tasks that are not feasible get a later deadline, by bisection between the requested deadline and their end beside the
base plan. All deadlines between the deadlines of two neighbours in the queue give the same plan, so few plans are made.

*Without a deadline* tasks are placed beside everything that is planned, and no other job moves.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, inf
from typing import NamedTuple

from oarpy.profiles.planned import JobId, id_order
from oarpy.profiles.profile import CountedHold, Profile
from oarpy.scheduler.bags.tasks import TaskGroup, Tasks, hold_planned, last_end, place


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


class _FillingTime:
    """Free time from ``now`` on that only gets less: a place is not looked for where there was no room before.

    ``_floors`` has, by processors, rising seconds and the rising instants before which nothing of that length fits.
    """

    __slots__ = ("_floors", "_now", "profile")

    def __init__(self, profile: Profile, now: float) -> None:
        self.profile, self._now = profile, now
        self._floors: dict[int, tuple[list[float], list[float]]] = {}

    def copy(self) -> _FillingTime:
        """Return independent free time of equal content."""
        twin = _FillingTime(self.profile.copy(), self._now)
        twin._floors = {procs: (times.copy(), floors.copy()) for procs, (times, floors) in self._floors.items()}
        return twin

    def place(self, tasks: Tasks, ready: float, listed: bool) -> tuple[list[TaskGroup], list[CountedHold]]:
        """Place tasks one after the other, each at its earliest place; return their groups and holds."""
        floor = max(self._floor(1, tasks.time), self._floor(tasks.procs, tasks.time))
        groups, holds = place(self.profile, tasks, max(ready, floor), listed)
        if ready <= floor:
            self._note(tasks, max(groups).start)
        return groups, holds

    def _floor(self, procs: int, time: float) -> float:
        times, floors = self._floors.get(procs, ((), ()))
        at = bisect_right(times, time)
        return floors[at - 1] if at else self._now

    def _note(self, tasks: Tasks, floor: float) -> None:
        """Note that nothing as large and as long as a task fits before an instant."""
        if floor <= self._floor(tasks.procs, tasks.time):
            return
        times, floors = self._floors.setdefault(tasks.procs, ([], []))
        at = bisect_left(times, tasks.time)
        lower = bisect_right(floors, floor)
        times[at:lower], floors[at:lower] = [tasks.time], [floor]


@dataclass(frozen=True, slots=True)
class _QueueByDeadlines:
    """The waiting jobs by deadlines: the places of those ahead of the first late job, and the free time before each.

    If no job is late, the last of ``before`` is the free time beside all.
    """

    places: Sequence[Sequence[TaskGroup]]
    before: Sequence[_FillingTime]


class DeadlinePlans:
    """Plans of the waiting jobs of a cluster at an instant; ``running`` holds the running jobs.

    If ``listed``, plans name all groups of tasks, as needed to carry them out. Otherwise the plans of very many tasks
    may lack some groups.
    """

    def __init__(self, running: Profile, waiting: Iterable[DeadlineJob], now: float, listed: bool = False) -> None:
        self._now, self._listed = now, listed
        self._queue = sorted(waiting, key=lambda job: job.order)
        self._deadlines = [job.deadline for job in self._queue]
        self._running = running
        self._by_deadlines = self._in_turn()
        self._on_time = len(self._by_deadlines.places) == len(self._queue)
        self._base: tuple[Sequence[Sequence[TaskGroup]], Profile] | None = None

    def base(self) -> Plan:
        """Return the plan by deadlines if no job is late in it, else the present plan if all jobs have a place."""
        return {job.id: groups for job, groups in zip(self._queue, self._base_plan()[0], strict=True)}

    def anew(self, new: DeadlineJob) -> Plan | None:
        """Return the plan by deadlines with a new job behind the others of its deadline; None if a job is late."""
        behind = bisect_right(self._deadlines, new.deadline)
        planned = self._inserted(new, behind)
        if planned is None:
            return None
        ids = [job.id for job in self._queue]
        return dict(zip([*ids[:behind], new.id, *ids[behind:]], planned, strict=True))

    def beside(self, tasks: Tasks, sizes: Sequence[int]) -> list[list[TaskGroup]]:
        """Return the places of tasks beside the base plan, for rising numbers of tasks."""
        return _rising(self._base_plan()[1].copy(), tasks, sizes, self._now, self._listed)

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
                planned = self._inserted(DeadlineJob("", tasks, inf), behind)
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

    def _in_turn(self) -> _QueueByDeadlines:
        """Place each job in turn at its earliest place, until one is late."""
        time = _FillingTime(self._running.copy(), self._now)
        places: list[Sequence[TaskGroup]] = []
        before = [time.copy()]
        for job in self._queue:
            groups, _ = time.place(job.tasks, job.ready, self._listed)
            if last_end(groups, job.tasks.time) > job.deadline:
                break
            places.append(groups)
            before.append(time.copy())
        return _QueueByDeadlines(places, before)

    def _inserted(self, new: DeadlineJob, behind: int) -> list[Sequence[TaskGroup]] | None:
        """Return the plan by deadlines with a job behind so many others; None if a job is late."""
        places, before = self._by_deadlines.places, self._by_deadlines.before
        if behind >= len(before):
            return None
        time = before[behind].copy()
        groups, holds = time.place(new.tasks, new.ready, self._listed)
        if last_end(groups, new.tasks.time) > new.deadline:
            return None
        if self._on_time and before[-1].profile.fits_all(holds):
            return [*places[:behind], groups, *places[behind:]]  # the others are where they would be without it
        planned = [*places[:behind], groups]
        for job in self._queue[behind:]:
            planned.append(time.place(job.tasks, job.ready, self._listed)[0])
            if last_end(planned[-1], job.tasks.time) > job.deadline:
                return None
        return planned

    def _base_plan(self) -> tuple[Sequence[Sequence[TaskGroup]], Profile]:
        """Return the places of all jobs in the base plan, and the free time beside it."""
        if self._base is None:
            if self._on_time:
                self._base = self._by_deadlines.places, self._by_deadlines.before[-1].profile
            else:
                time = _FillingTime(self._running.copy(), self._now)
                if all(job.planned for job in self._queue):
                    planned: list[Sequence[TaskGroup]] = [job.planned for job in self._queue]
                    for job in self._queue:
                        hold_planned(time.profile, job.planned, job.tasks)
                else:
                    planned = [time.place(job.tasks, job.ready, self._listed)[0] for job in self._queue]
                self._base = planned, time.profile
        return self._base


def offers_beside(profile: Profile, tasks: Tasks, shares: Iterable[int], now: float) -> list[BagOffer]:
    """Return offers for shares (%) of a bag without a deadline; the profile holds running and planned jobs."""
    sizes = sizes_of(tasks.count, shares)
    places = _rising(profile.copy(), tasks, sizes, now, listed=False)
    return worth_telling(
        BagOffer(size, last_end(groups, tasks.time)) for size, groups in zip(sizes, places, strict=True)
    )


def _rising(profile: Profile, tasks: Tasks, sizes: Sequence[int], now: float, listed: bool) -> list[list[TaskGroup]]:
    """Place rising numbers of tasks, each beside the fewer ones before it."""
    places: list[list[TaskGroup]] = []
    groups: list[TaskGroup] = []
    for size, before in zip(sizes, (0, *sizes), strict=False):
        lo = groups[-1].start if groups else now
        more, _ = place(profile, replace(tasks, count=size - before), lo, listed)
        groups = groups + more
        places.append(groups)
    return places


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
