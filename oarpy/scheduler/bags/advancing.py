"""A job ended early: this module moves waiting jobs and tasks of bags forward in time.

A task that ends before the last task of its bag gains nothing by an earlier start. So the first pass takes jobs in the
order of their ends. A task counts there as ending with its whole bag, over all clusters. A second pass fills the
remaining gaps, in the order of the starts.

Tasks of a bag with the same start are one group. Equal tasks leave their start one by one, and the first of them takes
the earliest place, so a later one never finds an earlier place. A group therefore moves in parts, as many tasks at once
as have room.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from operator import itemgetter
from typing import Any

from oarpy.profiles.planned import JobId, id_order
from oarpy.profiles.profile import CountedHold, Profile

BagName = int | str
Completions = Mapping[Any, float]
"""The ends of bags, by their names (seconds)."""


@dataclass(slots=True)
class PlannedTasks:
    """A job that waits, or ``count`` tasks of a bag that wait for the same ``start``; ``procs`` are those of one."""

    id: JobId
    procs: int
    start: float
    time: float
    bag: BagName | None = None
    count: int = 1

    @property
    def end(self) -> float:
        """The instant at which they end."""
        return self.start + self.time


@dataclass(frozen=True, slots=True)
class Advance:
    """The changes that the broker must hear of.

    ``new_completions`` are the bags whose last task was here and now ends earlier. ``changed`` are all bags whose end
    here changed.
    """

    new_completions: Completions
    changed: Completions


def advance(
    profile: Profile,
    waiting: list[PlannedTasks],
    begun: Completions,
    completions: Completions,
    now: float,
    coordinated: bool = True,
) -> Advance:
    """Move each waiting job to its earliest free start; no job starts later than before.

    ``profile`` holds all that waits. Groups of which a part moves are split: the part is added to ``waiting``.
    ``begun`` has, for each bag, the latest end of its tasks that do not wait any more. ``completions`` are those of
    whole bags, over all clusters.
    """
    before = _completions_here(waiting, begun)
    held = {tasks.bag for tasks in waiting if tasks.bag is not None and tasks.end == completions[tasks.bag]}
    openings = _Openings(profile, waiting, now)
    if coordinated and openings.suit_some():
        by_completion = sorted(
            waiting,
            key=lambda tasks: (
                tasks.end if tasks.bag is None else completions[tasks.bag],
                tasks.start,
                id_order(tasks.id),
            ),
        )
        waiting += openings.fill(by_completion)
    if openings.suit_some():
        waiting += openings.fill(sorted(waiting, key=lambda tasks: (tasks.start, id_order(tasks.id))))
    after = _completions_here(waiting, begun)
    return Advance(
        {bag: end for bag, end in after.items() if bag in held and end != completions[bag]},
        {bag: end for bag, end in after.items() if end != before[bag]},
    )


class _Openings:
    """The spans from ``now`` to the latest start in which the smallest of waiting jobs fits: (begin, end), rising.

    Few groups have room before them, and it is in these spans. They are kept while groups move.
    """

    def __init__(self, profile: Profile, waiting: Sequence[PlannedTasks], now: float) -> None:
        self._profile = profile
        self._least = min((tasks.procs for tasks in waiting), default=1)
        self._latest = max((tasks.start for tasks in waiting), default=now)
        self._spans = profile.openings(self._least, now, self._latest)

    def suit_some(self) -> bool:
        """Tell whether a job may have room before it."""
        return bool(self._spans)

    def fill(self, queue: Iterable[PlannedTasks]) -> list[PlannedTasks]:
        """Give the tasks of each group in turn their earliest places; return the parts that leave their groups."""
        left: list[PlannedTasks] = []
        for tasks in queue:
            while (start := self._earliest(tasks)) < tasks.start:
                here = self._move(tasks, start)
                if here == tasks.count:
                    tasks.start = start
                    break
                tasks.count -= here
                left.append(PlannedTasks(tasks.id, tasks.procs, start, tasks.time, tasks.bag, here))
        return left

    def _earliest(self, tasks: PlannedTasks) -> float:
        """Return the earliest start of a task of a group; behind its own start, its hold makes room."""
        start, time = tasks.start, tasks.time
        for begin, end in self._spans:
            if begin >= start:
                break
            if end >= start or begin + time <= end:
                if tasks.procs == self._least:
                    return begin
                return self._profile.earlier(tasks.procs, time, begin, start)
        return start

    def _move(self, tasks: PlannedTasks, start: float) -> int:
        """Move as many tasks of a group as have room at an earlier start; return their number."""
        procs, old = tasks.procs, tasks.start
        end, behind = min(start + tasks.time, old), max(start + tasks.time, old)
        here = min(tasks.count, self._profile.least_free(start, end) // procs)
        self._profile.take(start, end, here * procs)
        self._profile.give_back(CountedHold(here * procs, behind, tasks.end))
        begin, close = self._spans.pop(bisect_right(self._spans, (start, inf)) - 1)
        for span in ((begin, start), *self._profile.openings(self._least, start, end), (end, close)):
            self._open(*span)
        self._open(behind, min(tasks.end, self._latest))
        return here

    def _open(self, begin: float, end: float) -> None:
        """Add a span, if it has any length; spans that touch it become part of it."""
        if begin >= end:
            return
        first = bisect_left(self._spans, begin, key=itemgetter(1))
        behind = bisect_right(self._spans, end, key=itemgetter(0))
        if first < behind:
            begin, end = min(begin, self._spans[first][0]), max(end, self._spans[behind - 1][1])
        self._spans[first:behind] = [(begin, end)]


def _completions_here(waiting: Iterable[PlannedTasks], begun: Completions) -> dict[BagName, float]:
    completions = dict(begun)
    for tasks in waiting:
        if tasks.bag is not None:
            end = tasks.start + tasks.time
            if end > completions.get(tasks.bag, -inf):
                completions[tasks.bag] = end
    return completions
