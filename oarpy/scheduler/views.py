"""What jobs see of the resources over time: what is common to all views of a job is free for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class View(Protocol):
    """A set of resources that changes at instants."""

    @property
    def begins(self) -> Sequence[float]:
        """The instants, ascending; before the first one there is nothing."""

    def common(self, begin: float, end: float) -> int:
        """Return what is in it during the whole of [begin, end); ``begin`` is not before the first instant."""

    def after(self, instant: float) -> float | None:
        """Return the first instant after ``instant`` at which it changes, None when there is none."""
