"""The rate of an iterative program: it is run with more and more iterations, until its rate is steady."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class SteadyRate(NamedTuple):
    """Iterations a second, and with how many iterations that was found."""

    rate: float
    iterations: int


def steady_rate(measured: Sequence[tuple[int, float]], steady: float) -> SteadyRate:
    """Return the first rate that differs from the one before it by less than the share ``steady``, else the last.

    ``measured`` has numbers of iterations, and the seconds that they took.

    >>> steady_rate([(1, 1.0), (3, 2.0), (10, 6.5)], steady=0.05)
    SteadyRate(rate=1.5384615384615385, iterations=10)
    """
    rates = [SteadyRate(iterations / seconds, iterations) for iterations, seconds in measured]
    calm = (two for one, two in pairwise(rates) if abs(two.rate - one.rate) < steady * one.rate)
    return next(calm, rates[-1])
