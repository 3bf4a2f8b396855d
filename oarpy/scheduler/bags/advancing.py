"""A job ended early: who starts earlier, where tasks of bags are among those that wait.

A task that ends before its bag does gains nothing by an earlier start. So in a first pass who ends first comes first,
and tasks of a bag count as ending when the bag does, over all clusters. A second pass fills what is left, by start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from oarpy.profiles.planned import PlannedJob, id_order, move_forward
from oarpy.profiles.timeline import Timeline

Request = TypeVar("Request")
Hold = TypeVar("Hold")
BagName = int | str
Completions = Mapping[Any, float]
"""When bags are done, by their names (seconds)."""


@dataclass(slots=True)
class PlannedTask(PlannedJob[Request, Hold]):
    """A job that waits, or a task of a bag."""

    bag: BagName | None = None


@dataclass(frozen=True, slots=True)
class Advance:
    """What the broker hears: completions of bags that ended here last of all, and all that changed here."""

    new_completions: Completions
    changed: Completions


def advance(
    timeline: Timeline[Request, Hold],
    waiting: Sequence[PlannedTask[Request, Hold]],
    begun: Completions,
    completions: Completions,
    now: float,
    coordinated: bool = True,
) -> Advance:
    """Let everybody who waits start as early as is free; nobody starts later than before.

    ``begun`` has, for each bag, the latest end of its tasks that do not wait any more; ``completions`` are those of
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
    found = dict(begun)
    for task in waiting:
        if task.bag is not None:
            found[task.bag] = max(found.get(task.bag, task.end), task.end)
    return found
