"""The step of a pass that places the jobs that wait, where some of them choose their places themselves.

Nobody but the planner places jobs in most passes. A slice whose jobs have a say gives the snapshot a value that does it
in the planner's stead; what it has to tell besides the plan is its own matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from oarpy.scheduler.order.queue_orders import Order
from oarpy.scheduler.plan import Plan
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.snapshot import Snapshot


class PlacingOutcome(Protocol):
    """What a step tells beside the plan."""

    @property
    def dates(self) -> tuple[float, ...]:
        """Return the instants at which it wants another pass."""


class PlacingStep(Protocol):
    """Who places the jobs of a snapshot that wait."""

    def place(
        self, snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers | None
    ) -> tuple[Plan, PlacingOutcome]:
        """Place every waiting job, and say what there is to tell."""
