"""Equal tasks, each at the earliest place that is left. Tasks with the same start are a group::

2 |        CC FF           6 tasks on 3 processors, two of which a job holds first:
1 |  xxxxx BB EE GG        A; B and C; D; E and F; G
0 |  AA DD ...
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, TypeVar

from oarpy.profiles.timeline import Processors

Hold = TypeVar("Hold")

_FEW_ROUNDS = 1000
"""The number of rounds of tasks that are looked at one by one; further rounds are counted."""


class TaskGroup(NamedTuple):
    """A number of tasks that start together."""

    start: float
    tasks: int


@dataclass(frozen=True, slots=True)
class Tasks:
    """``count`` equal tasks, each of ``procs`` processors for ``time`` seconds."""

    count: int
    procs: int
    time: float


def place(
    timeline: Processors[Hold], tasks: Tasks, lo: float, listed: bool = False
) -> tuple[list[TaskGroup], list[Hold]]:
    """Place tasks one after the other from ``lo`` on, each at its earliest place; return their groups and holds.

    Once all other holds are over, tasks follow each other on the same processors in rounds. Unless each group is to be
    ``listed``, very many rounds are one hold, and only the groups of the first rounds and the last are returned.
    """
    procs, time = tasks.procs, tasks.time
    alone = inf if listed else max(timeline.ends(lo), default=lo)
    left, start = tasks.count, lo
    groups: list[TaskGroup] = []
    holds: list[Hold] = []
    while left:
        start = timeline.earliest(procs, time, start)
        if start >= alone and left > _FEW_ROUNDS * (timeline.free(start, time) // procs):
            more, held = _rounds(timeline, Tasks(left, procs, time), start)
            return groups + more, holds + held
        here = min(left, timeline.free(start, time) // procs)
        groups.append(TaskGroup(start, here))
        holds.append(timeline.hold(here * procs, start, start + time))
        left -= here
    return groups, holds


def _rounds(timeline: Processors[Hold], tasks: Tasks, start: float) -> tuple[list[TaskGroup], list[Hold]]:
    """Place tasks on an empty timeline: the groups of the first ``time`` seconds repeat one after the other."""
    first, holds, left, at = [], [], tasks.count, start
    while left and at < start + tasks.time:
        here = min(left, timeline.free(at, tasks.time) // tasks.procs)
        first.append(TaskGroup(at, here))
        holds.append(timeline.hold(here * tasks.procs, at, at + tasks.time))
        left -= here
        at = timeline.earliest(tasks.procs, tasks.time, at)
    rounds, rest = divmod(left, sum(group.tasks for group in first))
    last = [TaskGroup(group.start + rounds * tasks.time, group.tasks) for group in first] if rounds else []
    for group in first if rounds else ():
        begin = group.start + tasks.time
        holds.append(timeline.hold(group.tasks * tasks.procs, begin, begin + rounds * tasks.time))
    for group in first:
        here = min(rest, group.tasks)
        if here:
            begin = group.start + (rounds + 1) * tasks.time
            last.append(TaskGroup(begin, here))
            holds.append(timeline.hold(here * tasks.procs, begin, begin + tasks.time))
            rest -= here
    return first + last, holds


def hold_planned(timeline: Processors[Hold], groups: Iterable[TaskGroup], tasks: Tasks) -> list[Hold]:
    """Hold the processors of planned groups of tasks at their starts."""
    return [timeline.hold(group.tasks * tasks.procs, group.start, group.start + tasks.time) for group in groups]


def last_end(groups: Iterable[TaskGroup], time: float) -> float:
    """Return when the last task ends."""
    return max(group.start for group in groups) + time
