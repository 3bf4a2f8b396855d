"""A job ended early: this module moves waiting jobs and tasks of bags forward in time.

A task that ends before the last task of its bag gains nothing by an earlier start. So the first pass takes jobs in the
order of their ends. A task counts there as ending with its whole bag, over all clusters. A second pass fills the
remaining gaps, in the order of the starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from oarpy.profiles.planned import PlannedJob, id_order, move_forward
from oarpy.profiles.timeline import MovingTimeline

Request = TypeVar("Request")
Hold = TypeVar("Hold")
BagName = int | str
Completions = Mapping[Any, float]
"""The ends of bags, by their names (seconds)."""


@dataclass(slots=True)
class PlannedTask(PlannedJob[Request, Hold]):
    """A job that waits, or a task of a bag."""

    bag: BagName | None = None


@dataclass(frozen=True, slots=True)
class Advance:
    """The changes that the broker must hear of.

    ``new_completions`` are the bags whose last task was here and now ends earlier. ``changed`` are all bags whose end
    here changed.
    """

    new_completions: Completions
    changed: Completions


def advance(
    timeline: MovingTimeline[Request, Hold],
    waiting: Sequence[PlannedTask[Request, Hold]],
    begun: Completions,
    completions: Completions,
    now: float,
    coordinated: bool = True,
) -> Advance:
    """Move each waiting job to its earliest free start; no job starts later than before.

    ``begun`` has, for each bag, the latest end of its tasks that do not wait any more. ``completions`` are those of
    whole bags, over all clusters.
    """
    before = _completions_here(waiting, begun)
    held = {task.bag for task in waiting if task.bag is not None and task.end == completions[task.bag]}
    if coordinated:
        by_completion = sorted(
            waiting,
            key=lambda task: (
                task.end if task.bag is None else completions[task.bag],
                task.start,
                id_order(task.id),
            ),
        )
        move_forward(timeline, by_completion, now)
    move_forward(timeline, sorted(waiting, key=lambda task: (task.start, id_order(task.id))), now)
    after = _completions_here(waiting, begun)
    return Advance(
        {bag: end for bag, end in after.items() if bag in held and end != completions[bag]},
        {bag: end for bag, end in after.items() if end != before[bag]},
    )


def _completions_here(waiting: Sequence[PlannedTask[Request, Hold]], begun: Completions) -> dict[BagName, float]:
    completions = dict(begun)
    for task in waiting:
        if task.bag is not None:
            completions[task.bag] = max(completions.get(task.bag, task.end), task.end)
    return completions
