"""The runs of the experiments on reservations that may move: parts of a log, each a file of ``oarpy grid simulate``.

Each random quantity has a generator of its own, drawn once for each job: variants differ in nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import floor
from pathlib import Path
from typing import Any

import numpy as np

from oarpy.grid.simulation.command import object_of
from oarpy.model.errors import UsageError
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.traces.swf import read_swf, records
from oarpy.simulation.traces.trace import TraceJob
from research.runs.experiment import Parameters, RunList, Values, uncollected

VERSION = 1
LOG = "SDSC-SP2-1998-4.2-cln"
PROCS, DAYS = 128, 15
WINDOWS = (1, 7, 13, 19, 25, 31, 37, 43)
"""The parts of the log that are replayed, 15 days each."""
METRICS = ("utilisation", "acceptance", "accepted", "by_offer", "mean_phi")
NEVER = "never"
_DAY = 86400
_SHORTEST = 60
"""Seconds of a run that is replayed."""
_SUBMIT = 1
"""Place of the submission in a record of a log."""
_INTERVALS = {25: 2, 50: 3, 100: 4}
"""The generator of the intervals of each mean."""


def flexible_runs(points: Sequence[Parameters], windows: Sequence[int], seeds: Sequence[int], traces: Path) -> RunList:
    """Return the runs of points, once for each part of the log and each seed. Raises :class:`UsageError`."""
    log = next(iter(sorted(traces.rglob(f"{LOG}.swf*"))), None)
    if log is None:
        raise UsageError(f"no {LOG} below '{traces}'", hint="get it from the Parallel Workloads Archive")
    runs: list[Parameters] = [
        {**point, "window": window, "seed": seed} for point in points for window in windows for seed in seeds
    ]
    return RunList("flexible", VERSION, flexible_run, runs, {"log": str(log)})


@uncollected
def flexible_run(run: Parameters, places: Mapping[str, str]) -> Values:
    """Do one run; return its metrics, and what its workload is."""
    path = Path(places["log"])
    jobs, left_out = _part(path, int(run["window"]), float(run["load"]))
    document = scenario(run, path)
    metrics = object_of(json.dumps(document))["metrics"]
    load = 100 * sum(job.procs * job.run for job in jobs) / (PROCS * DAYS * _DAY)
    return {**{name: metrics[name] for name in METRICS}, "jobs": len(jobs), "left_out": left_out, "load": load}


def scenario(run: Parameters, log: Path) -> dict[str, Any]:
    """Return the file of a run."""
    first, load = int(run["window"]) * DAYS * _DAY, float(run["load"])
    jobs, _ = _part(log, int(run["window"]), load)
    rules: dict[str, Any] = {"order": run["order"], "seed": run["seed"]}
    if run["fix"] != NEVER:
        rules["fix"] = run["fix"]
    drawn = _Drawn(int(run["seed"]), len(jobs))
    # in parts of a second that are exact: a window that is as long as its run is not a little shorter
    submissions = [floor((job.submit - first) / load * 1024) / 1024 for job in jobs]
    entries = [_entry(run, drawn, place, job, submissions[place]) for place, job in enumerate(jobs)]
    return {
        "system": "windows",
        "engine": "counting",
        "clusters": [{"name": "sdsc", "procs": PROCS}],
        "windows": rules,
        "measure": [0, DAYS * _DAY],
        "jobs": entries,
    }


class _Drawn:
    """The random numbers of each job, by its place."""

    def __init__(self, seed: int, jobs: int) -> None:
        def numbers(kind: int) -> np.random.Generator:
            return np.random.default_rng([seed, kind])

        self.patience = np.maximum(numbers(0).poisson(5, jobs), 1)
        self.flexible = numbers(1).random(jobs) < 0.5
        self.intervals = {mean: numbers(kind).poisson(mean, jobs) for mean, kind in _INTERVALS.items()}
        self.accuracy = np.minimum(numbers(5).poisson(80, jobs), 100)


def _entry(run: Parameters, drawn: _Drawn, place: int, job: TraceJob, submit: float) -> dict[str, Any]:
    deadline = submit + job.run * int(drawn.patience[place])
    entry: dict[str, Any] = {
        "id": job.number,
        "procs": job.procs,
        "submit": submit,
        "run": job.run,
        "walltime": job.run,
        "ready": deadline - job.run,
        "deadline": deadline,
    }
    if run["inaccurate"]:
        entry["run"] = job.run * int(drawn.accuracy[place]) / 100
    if drawn.flexible[place] or run["all"]:
        if run["interval"]:
            entry["deadline"] += job.run * int(drawn.intervals[int(run["interval"])][place]) / 100
        if run["offers"]:
            entry["accept"] = int(run["offers"]) / 100
    return entry


@lru_cache(maxsize=4)
def _log(path: Path) -> tuple[tuple[TraceJob, ...], tuple[float, ...]]:
    """Return the jobs that can be replayed, and when each record was submitted."""
    return read_swf(path, Machine(PROCS)).jobs, tuple(values[_SUBMIT] for _, values in records(path))


def _part(path: Path, window: int, load: float) -> tuple[list[TraceJob], int]:
    """Return the jobs of a part of the log, and how many records of it are left out."""
    all_jobs, submissions = _log(path)
    begin, end = window * DAYS * _DAY, (window + load) * DAYS * _DAY
    jobs = [job for job in all_jobs if begin <= job.submit < end and job.run >= _SHORTEST]
    return jobs, sum(begin <= at < end for at in submissions) - len(jobs)
