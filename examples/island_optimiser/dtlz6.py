"""The problem DTLZ6: several objectives to minimise, whose best values form a curve that is hard to reach.

A point has ``OBJECTIVES + 9`` variables between 0 and 1. The last ten decide the distance from the curve, which is 0
only where all ten are 0; the first one is the place on the curve.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
"""Rows of numbers."""

OBJECTIVES = 3
VARIABLES = OBJECTIVES + 9


def objectives(points: Values) -> Values:
    """Return the objectives of points, a row each."""
    far = np.sum(points[:, OBJECTIVES - 1 :] ** 0.1, axis=1)
    angles = np.pi / (4 * (1 + far[:, None])) * (1 + 2 * far[:, None] * points[:, : OBJECTIVES - 1])
    angles[:, 0] = points[:, 0] * np.pi / 2
    return np.asarray((1 + far[:, None]) * _on_sphere(angles))


def front(count: int) -> Values:
    """Return points of the exact front, from one end to the other at equal angles."""
    angles = np.full((count, OBJECTIVES - 1), np.pi / 4)
    angles[:, 0] = np.linspace(0, np.pi / 2, count)
    return _on_sphere(angles)


def _on_sphere(angles: Values) -> Values:
    """Return points of the unit sphere: the first has all cosines, each next one a cosine less, and a sine."""
    ones = np.ones((len(angles), 1))
    cosines = np.cumprod(np.hstack([ones, np.cos(angles)]), axis=1)[:, ::-1]
    sines = np.hstack([ones, np.sin(angles)[:, ::-1]])
    return np.asarray(np.maximum(cosines * sines, 0))


def epsilon(found: Values, reference: Values) -> float:
    """Return by how much ``found`` must become less, in each objective, to reach every row of ``reference``."""
    short = np.max(found[:, None, :] - reference[None, :, :], axis=2)
    return float(np.max(np.min(short, axis=0)))


def nondominated(values: Values) -> NDArray[np.bool_]:
    """Return which rows no other row is as good as in all objectives, and better in one."""
    as_good = np.all(values[:, None, :] <= values[None, :, :], axis=2)
    better = np.any(values[:, None, :] < values[None, :, :], axis=2)
    return np.asarray(~np.any(as_good & better, axis=0))
