"""The step of a pass that changes how long jobs ask for resources, by the resources that they would get.

Where the run time of a job depends on its place, a slice gives the snapshot a value that has the jobs placed, says what
follows from the places, and has them placed again with that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from oarpy.scheduler.placing import PlacingOutcome
from oarpy.scheduler.plan import Plan
from oarpy.scheduler.snapshot import Snapshot

Placed: TypeAlias = tuple[Plan, PlacingOutcome | None]
"""Where jobs go, and what there is to tell besides, if another than the planner placed them."""
Place: TypeAlias = Callable[[Snapshot], Placed]


class Fitted(Protocol):
    """The walltimes that follow from the places of jobs."""

    @property
    def faults(self) -> tuple[str, ...]:
        """Return the faults on the way, each of which was got round."""


class FittingStep(Protocol):
    """A step that fits the walltimes of jobs to their places."""

    def fitted(self, snapshot: Snapshot, place: Place) -> tuple[Placed, Fitted]:
        """Have the jobs of a snapshot placed until their walltimes fit; return their places and what follows."""
