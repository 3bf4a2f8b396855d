"""The interface for slices that add to the state of the cluster: they read for passes, and write the decisions.

::

    read --> jobs are made (ranks, unasked) --> changed --> read_held --> holders are read (left_alone) --> jobs
    promising --> fitting --> step --> not_before --> decide --> write --> commit: committed --> next_pass --> noted

Each reader makes its own parts from the configuration. A part keeps the values it read last for its writing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from oarpy.cluster_state.stored_jobs import StoredHolder
from oarpy.scheduler.decide import Decisions
from oarpy.scheduler.fitting import FittingStep
from oarpy.scheduler.placing import PlacingStep
from oarpy.scheduler.promising import PromisingStep
from oarpy.scheduler.resources.platform import Platform
from oarpy.scheduler.snapshot import HoldingJob, Snapshot, WaitingJob
from oarpy.store.database import Connection


class StatePart:
    """The part of the state that one slice adds. A subclass overrides some methods; the others stand for nothing."""

    THERE: ClassVar[str] = "false"
    """The SQL condition that says whether there is anything to read."""

    @property
    def ranks(self) -> Mapping[int, float]:
        """By job, the instant that ranks it among the jobs of its queue, whatever orders these."""
        return MappingProxyType({})

    @property
    def unasked(self) -> frozenset[int]:
        """The jobs that are held until they ask for hosts."""
        return frozenset()

    def read(self, connection: Connection, *, any_there: bool) -> None:
        """Read what is needed before jobs are made."""

    def changed(self, jobs: tuple[WaitingJob, ...], platform: Platform) -> tuple[WaitingJob, ...]:
        """Return the jobs that wait, as they ask by what the part knows of them."""
        return jobs

    def read_held(self, connection: Connection, *, any_there: bool) -> None:
        """Read what is needed before the holders of resources are read."""

    def left_alone(self, rows: list[StoredHolder]) -> list[StoredHolder]:
        """Return rows of jobs that hold resources, without the resources that the part enters itself."""
        return rows

    def jobs(self, snapshot: Snapshot, withheld: Collection[int]) -> tuple[Sequence[WaitingJob], Sequence[HoldingJob]]:
        """Return what waits and what holds besides jobs; jobs in ``withheld`` do not wait."""
        return (), ()

    def step(self, connection: Connection, snapshot: Snapshot) -> PlacingStep | None:
        """Return the step that places the jobs of ``snapshot`` in the planner's stead, if there is one."""
        return None

    def promising(self, snapshot: Snapshot) -> PromisingStep | None:
        """Return the step that keeps and makes promises to jobs of ``snapshot``, if there is one."""
        return None

    def fitting(self, snapshot: Snapshot) -> FittingStep | None:
        """Return who fits walltimes of ``snapshot`` to places, if anybody does."""
        return None

    def not_before(self, snapshot: Snapshot) -> float | None:
        """Return when a pass over ``snapshot`` is due (epoch seconds), None if that is now."""
        return None

    def write(self, connection: Connection, decided: Decisions, snapshot: Snapshot, gone: Collection[int]) -> None:
        """Write the decisions; ``gone`` are the jobs that start."""

    def committed(self, decided: Decisions, snapshot: Snapshot) -> None:
        """Note that the decisions of a pass are committed."""

    def next_pass(self, decided: Decisions, snapshot: Snapshot, now: float) -> float | None:
        """Return when it wants another pass (epoch seconds), None for no earlier than others want it."""
        return None

    def noted(self, snapshot: Snapshot, due: float | None) -> None:
        """Note the snapshot of a pass, and when the next one is due at the latest (epoch seconds)."""

    def forget(self) -> None:
        """Forget the last snapshot, as it was not dealt with."""
