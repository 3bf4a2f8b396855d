"""The figures of a run: jobs that began in time, processors used and wasted, and the gain of moves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean

from oarpy.grid.simulation.grid_run import GridOutcome, GridRun, JobCourse
from oarpy.grid.simulation.scenario import GridJob, GridScenario

_EQUAL = 0.000001
"""Ends that differ by at most this many seconds are the same."""

_Pair = tuple[GridJob, JobCourse]


@dataclass(frozen=True, slots=True)
class GridMetrics:
    """Percentages, mean seconds, and ``rel``, a ratio of mean responses; None where there are no such jobs."""

    success: float | None
    local_killed: float | None
    total_load: float | None
    global_load: float | None
    wasted: float | None
    wasted_processor_seconds: float
    local_response: float | None
    moves: int
    impacted: float
    early: float
    rel: float
    mean_response: float | None

    def entry(self) -> dict[str, float | None]:
        """Return it as an object of JSON."""
        return asdict(self)


def judge(scenario: GridScenario, outcome: GridOutcome, without: Sequence[JobCourse] | None = None) -> GridMetrics:
    """Return the metrics of a run. Where passes may move jobs, the scenario is run ``without`` them, unless it was."""
    pairs = list(zip(scenario.jobs, outcome.courses, strict=True))
    together = [pair for pair in pairs if pair[0].components]
    local = [pair for pair in pairs if pair[0].cluster is not None]
    capacity = _capacity(scenario, pairs)
    wasted = sum(_waiting(*pair) for pair in together)
    used_together = sum(_used(*pair) for pair in together)
    impacted, early, rel = _impact(scenario, pairs, without)
    return GridMetrics(
        success=_percent(sum(course.state == "Terminated" for _, course in together), len(together)),
        local_killed=_percent(sum(course.state == "Killed" for _, course in local), len(local)),
        total_load=_percent(sum(_used(*pair) for pair in pairs) + wasted, capacity),
        global_load=_percent(used_together, capacity) if together else 0,
        wasted=_percent(wasted, capacity) if together else 0,
        wasted_processor_seconds=wasted,
        local_response=_response(pair for pair in local if pair[1].state == "Terminated"),
        moves=outcome.moved,
        impacted=impacted,
        early=early,
        rel=rel,
        mean_response=_response(pair for pair in pairs if pair[0].mapped),
    )


def _impact(
    scenario: GridScenario, pairs: Sequence[_Pair], without: Sequence[JobCourse] | None
) -> tuple[float, float, float]:
    """Return the % of mapped jobs whose end passes changed, the % of these that end earlier, and their response."""
    mapped = [place for place, (job, _) in enumerate(pairs) if job.mapped]
    if not mapped or not scenario.reallocation.algorithm:
        return 0, 0, 1
    if without is None:
        still = replace(scenario, reallocation=replace(scenario.reallocation, algorithm=0))
        without = GridRun(still).run().courses
    both = [(_response_of(*pairs[place]), _response_of(pairs[place][0], without[place])) for place in mapped]
    changed = [(response, other) for response, other in both if abs(response - other) > _EQUAL]
    if not changed:
        return 0, 0, 1
    early = sum(response < other for response, other in changed)
    rel = fmean(response for response, _ in changed) / fmean(other for _, other in changed)
    return 100 * len(changed) / len(mapped), 100 * early / len(changed), rel


def _capacity(scenario: GridScenario, pairs: Sequence[_Pair]) -> float:
    """Return the processor seconds from the first submission to the last end, or missed deadline."""
    last = max(job.deadline if course.end is None else course.end for job, course in pairs)
    return sum(cluster.procs for cluster in scenario.clusters) * (last - min(job.submit for job, _ in pairs))


def _held(job: GridJob) -> int:
    return job.procs * max(job.components, 1)


def _used(job: GridJob, course: JobCourse) -> float:
    return 0 if course.start is None or course.end is None else _held(job) * (course.end - course.start)


def _waiting(job: GridJob, course: JobCourse) -> float:
    """Return the processor seconds that were claimed and not used yet."""
    return 0 if course.start is None or course.claimed is None else _held(job) * (course.start - course.claimed)


def _response_of(job: GridJob, course: JobCourse) -> float:
    assert course.end is not None
    return course.end - job.submit


def _response(pairs: Iterable[_Pair]) -> float | None:
    responses = [_response_of(*pair) for pair in pairs]
    return fmean(responses) if responses else None


def _percent(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None
