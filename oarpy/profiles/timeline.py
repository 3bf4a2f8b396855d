"""The interface to free time for algorithms. A *request* is the need of a job, for instance a number of processors."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Protocol, TypeVar

Request = TypeVar("Request", contravariant=True)
Hold = TypeVar("Hold")


class Timeline(Protocol[Request, Hold]):
    """The holds on one machine over time. Times are seconds; resources held from a to b are free again at b."""

    def fits(self, request: Request, start: float, duration: float) -> bool:
        """Tell whether there is room for a request throughout [start, start + duration)."""

    def earliest(self, request: Request, duration: float, lo: float, hi: float = inf) -> float:
        """Return the earliest start in [lo, hi] at which the request fits for ``duration``; infinite if there is none.

        It is ``lo``, or an instant at which something ends.
        """

    def hold(self, request: Request, start: float, end: float) -> Hold:
        """Let a request that fits hold its resources during [start, end)."""

    def give_back(self, hold: Hold) -> None:
        """Give back a hold of :meth:`hold`."""

    def ends(self, after: float) -> Iterable[float]:
        """Return the instants later than ``after`` at which something held ends, rising; others may be among them."""


class MovingTimeline(Timeline[Request, Hold], Protocol[Request, Hold]):
    """A timeline on which holders move to earlier starts."""

    def earlier(self, request: Request, duration: float, lo: float, start: float) -> float:
        """Return the earliest start in [lo, start] for who holds the request for ``duration`` from ``start`` on.

        The hold itself is not in the way.
        """


class Processors(MovingTimeline[int, Hold], Protocol[Hold]):
    """A timeline whose requests are numbers of processors."""

    def free(self, start: float, duration: float = 0) -> int:
        """Return how many processors are free throughout [start, start + duration), or at ``start``."""
