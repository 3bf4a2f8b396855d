"""Which job a reallocation pass deals with next. If several tie, the job that was submitted first.

From INRIA RR-7226, "Analysis of tasks reallocation in a dedicated grid environment". ECTs have a row for each cluster,
infinite where it is too small, and a column for each job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

import numpy as np

from oarpy.grid.core.broker_state import HeuristicName, Places, Seconds

Score = Callable[[Places, Seconds, Seconds, Seconds, Seconds], Seconds]


def _gains(current: Seconds, new: Seconds) -> Seconds:
    """Return how much sooner jobs would end; a job that ends nowhere gains nothing."""
    gains = np.zeros_like(current)
    np.subtract(current, new, out=gains, where=current != new)
    return gains


def _sufferages(ects: Seconds) -> Seconds:
    if len(ects) == 1:
        return np.zeros_like(ects[0])
    least, second = np.partition(ects, 1, axis=0)[:2]
    sufferages: Seconds = np.full_like(least, inf)
    np.subtract(second, least, out=sufferages, where=second < inf)
    return sufferages


SCORES: Mapping[HeuristicName, Score] = {
    "mct": lambda procs, ects, current, new, best: np.zeros_like(current),
    "minmin": lambda procs, ects, current, new, best: -best,
    "maxmin": lambda procs, ects, current, new, best: best,
    "maxgain": lambda procs, ects, current, new, best: _gains(current, new),
    "maxrelgain": lambda procs, ects, current, new, best: _gains(current, new) / procs,
    "sufferage": lambda procs, ects, current, new, best: _sufferages(ects),
}
"""Scores of jobs, from their processors, ECTs, current ECTs, best ECTs by a move, and best ECTs anywhere.

The greatest is chosen, of equal scores the first.
"""

BY_GAIN: frozenset[HeuristicName] = frozenset({"maxgain", "maxrelgain"})
"""The heuristics that depend on the current ECTs; the others depend on the new ECTs alone."""

SIGNS_OF_SIZE: Mapping[HeuristicName, int] = {"minmin": 1, "maxmin": -1}
"""The heuristics that choose a job which asks for less time and no more processors before (1) or after (-1) another."""
