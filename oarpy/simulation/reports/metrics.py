"""The figures of a replay. All times are seconds.

- wait of a job: start - submit.
- bounded slowdown of a job: max(1, (wait + run) / max(run, 10)); the 10 s keep very short jobs from ruling the mean.
- makespan: end of the last job - submission of the first.
- utilisation: processor seconds used by the jobs / (processors of the machine * makespan).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from oarpy.simulation.traces.trace import TraceJob

SLOWDOWN_BOUND = 10


@dataclass(frozen=True, slots=True)
class Metrics:
    """Means and extremes over all jobs of a replay; all 0 when there is no job."""

    jobs: int
    mean_wait: float
    max_wait: float
    mean_bounded_slowdown: float
    utilisation: float
    makespan: float


def bounded_slowdown(wait: float, run: float) -> float:
    """Return how many times longer than needed a job took, its length taken as at least 10 s.

    >>> bounded_slowdown(wait=90, run=10), bounded_slowdown(wait=0, run=2)
    (10.0, 1.0)
    """
    return max(1.0, (wait + run) / max(run, SLOWDOWN_BOUND))


def measure(jobs: Sequence[TraceJob], starts: Sequence[float], procs: int) -> Metrics:
    """Return the metrics of ``jobs`` started at ``starts`` on a machine of ``procs`` processors."""
    if not jobs:
        return Metrics(0, 0.0, 0.0, 0.0, 0.0, 0.0)
    waits = [start - job.submit for job, start in zip(jobs, starts, strict=True)]
    slowdowns = [bounded_slowdown(wait, job.run) for job, wait in zip(jobs, waits, strict=True)]
    ends = [start + job.run for job, start in zip(jobs, starts, strict=True)]
    makespan = max(ends) - min(job.submit for job in jobs)
    work = fsum(job.run * job.procs for job in jobs)
    return Metrics(
        jobs=len(jobs),
        mean_wait=fsum(waits) / len(jobs),
        max_wait=max(waits),
        mean_bounded_slowdown=fsum(slowdowns) / len(jobs),
        utilisation=work / (procs * makespan),
        makespan=makespan,
    )
