"""The accuracy of learnt intervals of starts in a replay, as a site would have seen them.

Jobs are taken in the order of their first plans. Each interval is learnt only from starts until then, with the
intervals given for them. Jobs that started in the pass of their arrival are not counted.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from oarpy.scheduler.forecast.start_intervals import PastStart, StartForecast, StartInterval
from oarpy.simulation.engines.first_plans import FirstPlan

REFRESH = 50
"""New starts after which a forecast learns again."""


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """A job whose first plan, at ``planned_at``, was for ``start``, and that really started at ``came`` (seconds)."""

    queue: str
    planned_at: float
    start: float
    came: float


@dataclass(frozen=True, slots=True)
class ForecastAccuracy:
    """Outcome of a replay: numbers of jobs, parts of them (0 to 1), and seconds.

    The bound of a job is its planned wait: from its first plan to the start that this plan foresaw by walltimes.
    ``relative_width`` is the sum of all widths over the sum of the bounds of the same jobs.
    """

    waited: int
    told: int
    coverage: float
    worst_tenth: float
    median_width: float
    mean_width: float
    median_bound: float
    mean_bound: float
    relative_width: float
    narrower: float
    after_bound: float


def planned_starts(
    plans: Mapping[int, FirstPlan], starts: Sequence[float], queue: str = "default"
) -> list[PlannedStart]:
    """Return the jobs that had to wait, in the order of their first plans."""
    planned = (PlannedStart(queue, plan.planned_at, plan.start, starts[job]) for job, plan in sorted(plans.items()))
    return sorted(planned, key=lambda start: start.planned_at)


def start_intervals(jobs: Iterable[PlannedStart]) -> list[tuple[PlannedStart, StartInterval | None]]:
    """Return each job with its interval at its first plan, learnt from the starts until then."""
    intervals: list[tuple[PlannedStart, StartInterval | None]] = []
    to_come: list[tuple[float, int]] = []
    past: list[PastStart] = []
    forecast, learnt = StartForecast(), 0
    for number, job in enumerate(jobs):
        while to_come and to_come[0][0] <= job.planned_at:
            past.append(_past(*intervals[heapq.heappop(to_come)[1]]))
        if len(past) >= learnt + REFRESH:
            forecast, learnt = StartForecast(past), len(past)
        intervals.append((job, forecast.interval(job.queue, job.start - job.planned_at)))
        heapq.heappush(to_come, (job.came, number))
    return intervals


def accuracy(intervals: Sequence[tuple[PlannedStart, StartInterval | None]]) -> ForecastAccuracy:
    """Measure the given intervals. Raises ValueError if there are none."""
    pairs = [(job, interval) for job, interval in intervals if interval is not None]
    if not pairs:
        raise ValueError("too few jobs waited for an interval to be told")
    held = [_holds(job, interval) for job, interval in pairs]
    widths = [interval.latest - interval.earliest for _, interval in pairs]
    bounds = [job.start - job.planned_at for job, _ in pairs]
    tenth = max(1, len(held) // 10)
    return ForecastAccuracy(
        waited=len(intervals),
        told=len(pairs),
        coverage=fmean(held),
        worst_tenth=min(fmean(held[at : at + tenth]) for at in range(0, len(held) - tenth + 1, tenth)),
        median_width=median(widths),
        mean_width=fmean(widths),
        median_bound=median(bounds),
        mean_bound=fmean(bounds),
        relative_width=sum(widths) / sum(bounds),
        narrower=fmean(width < bound for width, bound in zip(widths, bounds, strict=True)),
        after_bound=fmean(job.came > job.start for job, _ in pairs),
    )


def _past(job: PlannedStart, interval: StartInterval | None) -> PastStart:
    held = None if interval is None else _holds(job, interval)
    return PastStart(job.queue, job.start - job.planned_at, job.came - job.planned_at, held)


def _holds(job: PlannedStart, interval: StartInterval) -> bool:
    return interval.earliest <= job.came - job.planned_at <= interval.latest
