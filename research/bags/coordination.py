"""The runs of the experiment on bags of tasks whose clusters tell each other when bags will be over.

Each is a file of ``oarpy grid simulate``: a workload of the Lublin-Feitelson model, whose jobs are bags of tasks of a
processor, on four clusters. Each random quantity has a generator of its own, so variants differ in nothing else.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from oarpy.grid.simulation.promised.systems import read_world
from oarpy.grid.simulation.promised.world import PromisedWorld
from oarpy.simulation.traces.trace import TraceJob
from oarpy.simulation.workloads.lublin import ALL_JOBS, generate
from research.runs.experiment import Parameters, RunList, Values, uncollected

VERSION = 1
CLUSTERS = ("C1", "C2", "C3", "C4")
ON = tuple(f"on_{count}" for count in range(1, len(CLUSTERS) + 1))
"""The shares (%) of bags on one cluster, on two, and so on."""
METRICS = (
    *("response", "slowdown", "response_single", "response_multi", "stretch", "gap", "clusters_per_bag", "broken"),
    *("utilisation", *CLUSTERS, *ON, "fitting"),
)
_FAST = CLUSTERS[:2]
"""The faster clusters where speeds differ, and those that plan by walltimes where estimates do."""
PROCS = 300
LOAD = 0.7
"""The work that arrives, as a share of what the clusters can do at speed 1."""
_DAY = 86400
_PROFILING = 1
"""The generator of the seconds that a prediction costs."""


def coordination_runs(points: Sequence[Parameters]) -> RunList:
    """Return the runs of points."""
    return RunList("bags", VERSION, coordination_run, list(points))


@uncollected
def coordination_run(run: Parameters, places: Mapping[str, str]) -> Values:
    """Do one run; return its metrics, and how many bags it has with which load (%)."""
    world = read_world(json.dumps(scenario(run)), "bags")
    for _ in world.events():
        pass
    metrics = world.metrics()
    days = int(run["days"])
    bags = workload(days, int(run["seed"]))
    values = {name: value for name, value in metrics.items() if name in METRICS}
    on = Counter(len({name for begun in course.runs for name in begun.held}) for course in world.courses)
    shares = {name: 100 * on[count] / len(bags) for count, name in enumerate(ON, 1)}
    load = 100 * sum(bag.procs * bag.run for bag in bags) / (PROCS * len(CLUSTERS) * days * _DAY)
    return {**values, **metrics["by_cluster"], **shares, "fitting": _fitting(world), "bags": len(bags), "load": load}


def _fitting(world: PromisedWorld[Any, Any]) -> int:
    """Return how many bags had a waiting task that fits into what an early end frees, summed over all early ends."""
    count = 0
    for name in CLUSTERS:
        parts, frees = [], []
        for number, course in enumerate(world.courses):
            here = [begun for begun in course.runs if name in begun.held]
            frees += [(begun.end, begun.planned_end) for begun in here if begun.end < begun.planned_end]
            if here:
                last_start, planned = max(begun.start for begun in here), here[0].planned_end - here[0].start
                parts.append((world.arrival(number), last_start, planned))
        arrivals, last_starts, lengths = np.array(parts).reshape(-1, 3).T
        for end, planned_end in frees:
            fits = (arrivals <= end) & (last_starts >= end) & (lengths <= planned_end - end)
            count += int(np.count_nonzero(fits))
    return count


def scenario(run: Parameters) -> dict[str, Any]:
    """Return the file of a run.

    ``estimates`` are ``walltime``, ``predicted``, or ``mixed``: the last two clusters plan by predictions. A walltime
    is ``more`` times the run time longer than it, and a prediction ``accuracy`` times that.
    """
    days, seed = int(run["days"]), int(run["seed"])
    bags = workload(days, seed)
    costs = np.random.default_rng([seed, _PROFILING]).integers(300, 1801, len(bags))
    return {
        "system": "bags",
        "engine": "counting",
        "bags": {"policy": run["policy"], "coordinated": bool(run["coordinated"])},
        "clusters": [_cluster(run, name) for name in CLUSTERS],
        "measure": [0, days * _DAY],
        "jobs": [_entry(run, bag, int(cost)) for bag, cost in zip(bags, costs, strict=True)],
    }


def _cluster(run: Parameters, name: str) -> dict[str, Any]:
    fast = name in _FAST
    predicts = run["estimates"] == "predicted" or (run["estimates"] == "mixed" and not fast)
    return {
        "name": name,
        "procs": PROCS,
        "speed": run["speed"] if fast else 1,
        "estimates": "predicted" if predicts else "walltime",
    }


def _entry(run: Parameters, bag: TraceJob, cost: int) -> dict[str, Any]:
    more, accuracy = float(run["more"]), float(run["accuracy"])
    entry: dict[str, Any] = {
        "id": f"b{bag.number}",
        "submit": bag.submit,
        "tasks": bag.procs,
        "run": bag.run,
        "walltime": bag.run * (1 + more),
    }
    if run["estimates"] != "walltime":
        entry |= {"predicted": bag.run * (1 + accuracy * more), "profiling": cost}
    return entry


@lru_cache(maxsize=4)
def workload(days: int, seed: int) -> tuple[TraceJob, ...]:
    """Return as many jobs of the model as give the load; the gaps between them are scaled to the days."""
    wanted = LOAD * PROCS * len(CLUSTERS) * days * _DAY
    count, area = 1000, 0.0
    while area < wanted:
        count *= 2
        jobs = generate(ALL_JOBS.fitted(PROCS), count, seed)
        area = sum(job.procs * job.run for job in jobs)
    kept, area = [], 0.0
    for job in jobs:
        kept.append(job)
        area += job.procs * job.run
        if area >= wanted:
            break
    first, last = kept[0].submit, kept[-1].submit
    return tuple(replace(job, submit=round((job.submit - first) * days * _DAY / (last - first))) for job in kept)
