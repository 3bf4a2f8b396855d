"""The step of a pass that places the waiting jobs if some of them choose their places themselves.

In most passes only the planner places jobs. A slice whose jobs choose places gives the snapshot a value that replaces
the planner. That value may return more than the plan; other modules do not look into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from oarpy.scheduler.order.queue_orders import Order
from oarpy.scheduler.plan import Plan
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.snapshot import Snapshot


class PlacingOutcome(Protocol):
    """The result of a step beside the plan."""

    @property
    def dates(self) -> tuple[float, ...]:
        """Return the instants at which the step needs another pass."""


class PlacingStep(Protocol):
    """Places the waiting jobs of a snapshot."""

    def place(
        self, snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers | None
    ) -> tuple[Plan, PlacingOutcome]:
        """Place every waiting job; return the plan and the further outcome."""
