"""The step of a pass that keeps promises to jobs beside reservations, and answers jobs that ask for a promise.

A slice that makes promises gives the snapshot a value with this interface. First, before other jobs are placed, the
promises are kept, and their jobs may move forward. Then new promises are made beside all that is planned. An accepted
job is an accepted reservation from then on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from oarpy.model.reasons import Reason
from oarpy.scheduler.plan import Placement, Plan
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.snapshot import Reservation, Snapshot
from oarpy.scheduler.windows.window_pass import WindowMove


class Promised(Protocol):
    """The result of a pass for promises."""

    @property
    def moves(self) -> Sequence[Reservation]:
        """Return the accepted reservations that go to another start, or to other resources."""

    @property
    def room_made(self) -> Sequence[WindowMove]:
        """Return the reservations that move inside their windows for those that are accepted."""

    @property
    def accepted(self) -> Sequence[Placement]:
        """Return the places of jobs that are accepted."""

    @property
    def refused(self) -> Mapping[int, tuple[Reason, float | None]]:
        """Return, by job, why it is refused, and when it could be had."""


class KeptPromises(Protocol):
    """Promises that were kept: the pass goes on with a snapshot that includes them."""

    @property
    def snapshot(self) -> Snapshot:
        """Return the snapshot without jobs that are answered here."""

    def answered(self, plan: Plan) -> Promised:
        """Answer the jobs that ask for a promise, beside the jobs of ``plan``."""


class PromisingStep(Protocol):
    """Keeps and makes the promises of a snapshot."""

    @property
    def own(self) -> Collection[int]:
        """Return the jobs that get other resources here if they lose some."""

    def kept(self, snapshot: Snapshot, matchers: Matchers | None) -> KeptPromises:
        """Keep the existing promises."""
