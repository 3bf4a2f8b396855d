"""Means of values of runs, with their 95 % intervals (Student's t)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

_STUDENT = {2: 12.706, 3: 4.303, 5: 2.776, 8: 2.365, 15: 2.145, 30: 2.045, 40: 2.023}
"""Student's t for an interval of 95 %, by the number of values."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, and the ends of its 95 % interval; None where there is nothing to take a mean of."""

    mean: float | None
    low: float | None
    high: float | None


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of values, with its interval for the numbers of runs that experiments have."""
    if not values:
        return Estimate(None, None, None)
    mean = fmean(values)
    if len(values) not in _STUDENT:
        return Estimate(mean, None, None)
    half = _STUDENT[len(values)] * stdev(values) / sqrt(len(values))
    return Estimate(mean, mean - half, mean + half)
