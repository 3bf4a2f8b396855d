"""The runs of the experiment on jobs over clusters that begin earlier: a month of three logs, and of large jobs of one.

Each is a file of ``oarpy grid simulate``. A log is brought to its published load: it loses records, or gets such of its
other months. Each random quantity has a generator of its own, so variants differ in nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from oarpy.grid.simulation.command import object_of
from oarpy.model.errors import UsageError
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.traces.swf import read_swf
from oarpy.simulation.traces.trace import TraceJob
from research.runs.experiment import Parameters, RunList, Values, uncollected

VERSION = 1
METRICS = ("response", "local_response", "external_response", "multi", "collapsed", "earlier", "utilisation")
_DAY = 86400
_ALL = 798
_LARGE = 128
"""Processors from which on a job of the log of external ones counts."""
_OVERHEADS = 4
"""The generator of overheads; each log has that of its place."""


@dataclass(frozen=True, slots=True)
class PublishedLog:
    """A log of table 4.1: where its month begins, and its loads in %, real and by estimates, of so many processors."""

    name: str
    first_day: int
    procs: int
    load: float
    estimated: float


LOCAL = {
    "A": PublishedLog("CTC-SP2-1996-3.1-cln", 0, 430, 57, 192),
    "B": PublishedLog("HPC2N-2002-2.2-cln", 30, 240, 54, 107),
    "C": PublishedLog("SDSC-SP2-1998-4.2-cln", 0, 128, 51, 288),
}
_EXTERNAL = "SDSC-BLUE-2000-4.2-cln"
EXTERNAL = {16: PublishedLog(_EXTERNAL, 0, _ALL, 16, 55), 31: PublishedLog(_EXTERNAL, 0, _ALL, 31, 91)}
"""The external loads."""


@dataclass(frozen=True, slots=True)
class MonthOfLog:
    """The jobs of a log, their submissions counted from its first day; ``lost`` and ``added`` bring it to ``load``."""

    jobs: tuple[TraceJob, ...]
    lost: int
    added: int
    load: float


def flexco_runs(points: Sequence[Parameters], traces: Path) -> RunList:
    """Return the runs of points. Raises :class:`UsageError` for a log that is not there."""
    places = {}
    for name in (*(log.name for log in LOCAL.values()), _EXTERNAL):
        log = next(iter(sorted(traces.rglob(f"{name}.swf*"))), None)
        if log is None:
            raise UsageError(f"no {name} below '{traces}'", hint="get it from the Parallel Workloads Archive")
        places[name] = str(log)
    return RunList("flexco", VERSION, flexco_run, list(points), places)


@uncollected
def flexco_run(run: Parameters, places: Mapping[str, str]) -> Values:
    """Do one run; return its metrics, what its workload is, and the largest share of its time that a metajob saved."""
    document = scenario(run, places)
    outcome = object_of(json.dumps(document))
    submitted = {job["id"]: job for job in document["jobs"]}
    saved = [
        submitted[job["id"]]["overhead"] / (1 + submitted[job["id"]]["overhead"])
        for job in outcome["jobs"]
        if len(job["planned"]["parts"]) > len(job["parts"]) == 1
    ]
    metrics = outcome["metrics"]
    sizes = {int(count): jobs for count, jobs in metrics["clusters"].items()}
    alone = 100 * sizes.get(1, 0) / max(sum(sizes.values()), 1)
    months = {name: _month(run, places, name) for name in (*LOCAL, "external")}
    inputs = {name: [len(month.jobs), month.lost, month.added, month.load] for name, month in months.items()}
    values = {name: metrics[name] for name in METRICS}
    return {**values, "alone": alone, "most_saved": 100 * max(saved, default=0.0), "inputs": inputs}


def scenario(run: Parameters, places: Mapping[str, str]) -> dict[str, Any]:
    """Return the file of a run."""
    entries = [
        {"id": f"{name}{place}", "cluster": name, **entry}
        for name in LOCAL
        for place, entry in enumerate(_entries(run, places, name))
    ]
    external = _entries(run, places, "external")
    overheads = _overheads(int(run["seed"]), len(external))
    entries += [
        {"id": f"m{place}", "overhead": overhead / 100, **entry}
        for place, (entry, overhead) in enumerate(zip(external, overheads, strict=True))
    ]
    entries.sort(key=lambda entry: entry["submit"])
    return {
        "system": "flexco",
        "engine": "counting",
        "flexco": {"operation": run["operation"]},
        "clusters": [{"name": name, "procs": log.procs} for name, log in LOCAL.items()],
        "measure": [0, int(run["days"]) * _DAY],
        "jobs": entries,
    }


def published(run: Parameters, name: str) -> PublishedLog:
    """Return what is published of a cluster's workload, or of the external one of a run."""
    return LOCAL[name] if name in LOCAL else EXTERNAL[int(run["external"])]


def _entries(run: Parameters, places: Mapping[str, str], name: str) -> list[dict[str, Any]]:
    """Return submissions, sizes and times; estimates are brought to their published load, and are so precise."""
    log, jobs = published(run, name), _month(run, places, name).jobs
    share = _scale(log, jobs, int(run["days"])) if run["scaled"] else 1.0
    left = share * (1 - float(run["precision"]))
    return [
        {
            "submit": job.submit,
            "procs": job.procs,
            "run": job.run,
            "walltime": job.run + left * (job.estimate - job.run),
        }
        for job in jobs
    ]


def _scale(log: PublishedLog, jobs: Sequence[TraceJob], days: int) -> float:
    """Return by how much what estimates have more than run times is multiplied to give the published load."""
    real = sum(job.procs * job.run for job in jobs)
    more = sum(job.procs * (job.estimate - job.run) for job in jobs)
    return max(log.estimated / 100 * log.procs * days * _DAY - real, 0) / more if more else 0.0


def _overheads(seed: int, jobs: int) -> list[int]:
    """Return overheads in %, each drawn until it is below 25."""
    numbers = np.random.default_rng([seed, _OVERHEADS])
    drawn = numbers.poisson(20, jobs)
    while (large := drawn >= 25).any():
        drawn[large] = numbers.poisson(20, int(large.sum()))
    return [int(overhead) for overhead in drawn]


def _month(run: Parameters, places: Mapping[str, str], name: str) -> MonthOfLog:
    log = published(run, name)
    kind = list(LOCAL).index(name) if name in LOCAL else len(LOCAL)
    return _loaded(log, places[log.name], int(run["days"]), int(run["seed"]), kind)


@lru_cache(maxsize=16)
def _loaded(log: PublishedLog, path: str, days: int, seed: int, kind: int) -> MonthOfLog:
    """Return a month with its published load, within a point of it."""
    smallest = _LARGE if log.name == _EXTERNAL else 1
    everybody = [job for job in read_swf(Path(path), Machine(log.procs)).jobs if job.procs >= smallest]
    begin, length = log.first_day * _DAY, days * _DAY
    inside = [job for job in everybody if begin <= job.submit < begin + length]
    others = [job for job in everybody if not begin <= job.submit < begin + length]
    point = log.procs * length / 100
    work = sum(job.procs * job.run for job in inside)
    numbers = np.random.default_rng([seed, kind])
    lost: set[int] = set()
    for place in numbers.permutation(len(inside)):
        if work <= (log.load + 1) * point:
            break
        lost.add(int(place))
        work -= inside[place].procs * inside[place].run
    kept = [job for place, job in enumerate(inside) if place not in lost]
    added: list[TraceJob] = []
    for place in numbers.permutation(len(others)) if not lost else ():
        if work >= (log.load - 1) * point:
            break
        job = others[place]
        if work + job.procs * job.run <= (log.load + 1) * point:
            added.append(job)
            work += job.procs * job.run
    moved = [_moved(job, job.submit - begin) for job in kept] + [_moved(job, job.submit % length) for job in added]
    moved.sort(key=lambda job: (job.submit, job.number))
    return MonthOfLog(tuple(moved), len(lost), len(added), work / point)


def _moved(job: TraceJob, submit: float) -> TraceJob:
    return TraceJob(job.number, submit, job.run, job.estimate, job.procs)
