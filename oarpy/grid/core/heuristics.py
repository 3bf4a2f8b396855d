"""Which job a reallocation pass deals with next. Ties go to the one that was submitted first.

From INRIA RR-7226, "Analysis of tasks reallocation in a dedicated grid environment". ECTs are by cluster, infinite
where the cluster is too small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

from oarpy.grid.core.broker_state import HeuristicName, JobId, MappedJob

Score = Callable[[MappedJob, Sequence[float], float, float], float]


def _sufferage(_job: MappedJob, ects: Sequence[float], _current: float, _new: float) -> float:
    if len(ects) == 1:
        return 0
    least, second = sorted(ects)[:2]
    return second - least if second < inf else inf


SCORES: Mapping[HeuristicName, Score] = {
    "mct": lambda job, ects, current, new: 0,
    "minmin": lambda job, ects, current, new: -min(ects),
    "maxmin": lambda job, ects, current, new: min(ects),
    "maxgain": lambda job, ects, current, new: current - new,
    "maxrelgain": lambda job, ects, current, new: (current - new) / job.procs,
    "sufferage": _sufferage,
}


def scores(
    heuristic: HeuristicName,
    jobs: Sequence[MappedJob],
    ects: Mapping[JobId, Sequence[float]],
    current: Mapping[JobId, float],
    new: Mapping[JobId, float],
) -> list[float]:
    """Return a number for each job, from its ECTs on all clusters, its current ECT and the best new one.

    The greatest is chosen, of equal ones the first.
    """
    score = SCORES[heuristic]
    return [score(job, ects[job.id], current[job.id], new[job.id]) for job in jobs]
