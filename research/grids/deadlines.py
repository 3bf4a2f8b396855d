"""The runs of "Simulating grid schedulers with deadlines and co-allocation": jobs whose components start together.

Four clusters of 32 processors have Poisson streams of local jobs, and the broker one of co-allocated jobs. Every
quantity has a random stream of its own: policies are compared on one workload.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import inf
from random import Random
from statistics import fmean

from oarpy.grid.core.broker_state import DeadlineRules, EvictionInstant, GridCluster
from oarpy.grid.simulation.grid_run import GridRun, JobCourse
from oarpy.grid.simulation.scenario import GridJob, GridScenario, QueuePolicy
from research.runs.experiment import Parameters, RunList, Values, uncollected

VERSION = 1
CLUSTERS, PROCS = 4, 32
LOCAL_MEAN, GLOBAL_MEAN = 100.0, 200.0
"""Mean run times in seconds."""
LOCAL_SIZES, GLOBAL_SIZES = (1, 32), (4, 32)
MOST_COMPONENTS = 4
METRICS = (
    *("success", "local_killed", "local_killed_of_started", "total_load", "global_load", "wasted", "local_response"),
)
_RATIO, _POWER_OF_TWO = 0.9, 3
_POLICY: QueuePolicy = "fcfs"

Pair = tuple[GridJob, JobCourse]


def size_weights(least: int, most: int) -> list[float]:
    """Return the weight of each size: 0.9^i, three times as much for powers of two."""
    return [_RATIO**size * (_POWER_OF_TWO if size & (size - 1) == 0 else 1) for size in range(least, most + 1)]


def mean_size(least: int, most: int) -> float:
    """Return the mean size.

    >>> round(mean_size(1, 32), 3), round(mean_size(4, 32), 3)
    (6.95, 10.444)
    """
    weights = size_weights(least, most)
    return sum(size * weight for size, weight in enumerate(weights, least)) / sum(weights)


def local_rate(load: float) -> float:
    """Return the arrivals a second on each cluster for a load in %.

    >>> round(local_rate(30), 5)
    0.01381
    """
    return load / 100 * PROCS / LOCAL_MEAN / mean_size(*LOCAL_SIZES)


def global_rate(load: float) -> float:
    """Return the arrivals of co-allocated jobs a second for a load in %.

    >>> round(global_rate(20), 5)
    0.00409
    """
    components = (2 + MOST_COMPONENTS) / 2
    return load / 100 * PROCS * CLUSTERS / GLOBAL_MEAN / components / mean_size(*GLOBAL_SIZES)


def deadline_runs(points: Iterable[Parameters], seeds: Sequence[int], jobs: int) -> RunList:
    """Return the runs of points, ``jobs`` co-allocated jobs each, once for each seed."""
    runs: list[Parameters] = [{**point, "jobs": jobs, "seed": seed} for point in points for seed in seeds]
    return RunList("deadlines", VERSION, deadline_run, runs)


@uncollected
def deadline_run(run: Parameters, _places: Mapping[str, str]) -> Values:
    """Do one run, up to the submission of the last co-allocated job; return what it is judged by."""
    together = list(_together(run))
    last = together[-1].submit
    local = [job for place in range(CLUSTERS) for job in _local(run, place, last)]
    evict = run["priority"] == "GP"
    evict_at: EvictionInstant = "last_try" if run["evict_at"] == "last_try" else "deadline"
    wait = inf if run["wait"] == "inf" else float(run["wait"])
    scenario = GridScenario(
        clusters=tuple(GridCluster(_name(place), PROCS, 1.0, evict) for place in range(CLUSTERS)),
        policies=tuple(_POLICY for _ in range(CLUSTERS)),
        jobs=tuple(sorted((*together, *local), key=lambda job: job.submit)),
        engine="counting",
        deadlines=DeadlineRules(float(run["lp"]), int(run["tries"]), wait, evict_at),
    )
    courses = GridRun(scenario).run(until=last).courses
    return measured(list(zip(scenario.jobs, courses, strict=True)), last)


def _name(place: int) -> str:
    return f"c{place}"


def _stream(run: Parameters, what: str) -> Random:
    return Random(f"{run['seed']}/{what}")


def _together(run: Parameters) -> Iterator[GridJob]:
    """Yield the co-allocated jobs, by submission."""
    gaps, offsets = _stream(run, "global arrivals"), _stream(run, "offsets")
    sizes, components, lengths = (_stream(run, f"global {what}") for what in ("sizes", "components", "run times"))
    weights = list(accumulate(size_weights(*GLOBAL_SIZES)))
    at = 0.0
    for number in range(int(run["jobs"])):
        at += gaps.expovariate(float(run["lambda_global"]))
        length = lengths.expovariate(1 / GLOBAL_MEAN)
        yield GridJob(
            f"g{number}",
            at,
            GLOBAL_SIZES[0] + _drawn(sizes, weights),
            length,
            length,
            components=components.randint(2, MOST_COMPONENTS),
            deadline=at + offsets.uniform(float(run["offset_min"]), float(run["offset_max"])),
        )


def _local(run: Parameters, place: int, last: float) -> Iterator[GridJob]:
    """Yield the local jobs of a cluster up to an instant."""
    name = _name(place)
    gaps, sizes, lengths = (_stream(run, f"{name} {what}") for what in ("arrivals", "sizes", "run times"))
    weights = list(accumulate(size_weights(*LOCAL_SIZES)))
    rate = float(run["lambda_local"])
    at, number = gaps.expovariate(rate), 0
    while at <= last:
        size = LOCAL_SIZES[0] + _drawn(sizes, weights)
        length = lengths.expovariate(1 / LOCAL_MEAN)
        yield GridJob(f"{name} {number}", at, size, length, length, cluster=name)
        at, number = at + gaps.expovariate(rate), number + 1


def _drawn(chance: Random, sums: Sequence[float]) -> int:
    """Draw a place by weights, given as their sums up to each place."""
    return bisect(sums, chance.random() * sums[-1], 0, len(sums) - 1)


def measured(pairs: Sequence[Pair], last: float) -> Values:
    """Return the metrics of a run over [0, ``last``]; loads in %."""
    capacity = CLUSTERS * PROCS * last
    together = [pair for pair in pairs if pair[0].components]
    local = [pair for pair in pairs if not pair[0].components]
    due = [course for job, course in together if job.deadline <= last]
    killed = sum(course.state == "Killed" for _, course in local)
    started = sum(course.start is not None for _, course in local)
    over = [(job, course.end) for job, course in local if course.state == "Terminated"]
    ended = [end - job.submit for job, end in over if end is not None]
    wasted = sum(_between(job, course.claimed, job.deadline, last) for job, course in together)
    used = sum(_between(job, course.start, course.end, last) for job, course in together)
    busy = used + wasted + sum(_between(job, course.start, course.end, last) for job, course in local)
    return {
        "success": _percent(sum(course.claimed is not None for course in due), len(due)),
        "local_killed": _percent(killed, len(local)),
        "local_killed_of_started": _percent(killed, started),
        "total_load": 100 * busy / capacity,
        "global_load": 100 * used / capacity,
        "wasted": 100 * wasted / capacity,
        "local_response": fmean(ended) if ended else None,
    }


def _between(job: GridJob, begin: float | None, end: float | None, last: float) -> float:
    """Return the processor seconds of a job from one instant to the other, up to the last one."""
    if begin is None or begin >= last:
        return 0
    return job.procs * max(job.components, 1) * (min(inf if end is None else end, last) - begin)


def _percent(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None
