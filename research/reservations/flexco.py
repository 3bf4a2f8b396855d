"""The runs of the experiment on jobs over clusters that begin earlier: a month of three logs, and of large jobs of one.

Each is a file of ``oarpy grid simulate``. A log is brought to its published load: it loses records, or gets such of its
other months. Each random quantity has a generator of its own, so variants differ in nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oarpy.grid.simulation.command import object_of
from oarpy.simulation.traces.trace import TraceJob
from research.runs.experiment import Parameters, RunList, Values, uncollected
from research.runs.published_logs import DAY, LogPart, PublishedLog, find_logs, part_of_log

VERSION = 1
METRICS = ("response", "local_response", "external_response", "multi", "collapsed", "earlier", "utilisation")
_ALL = 798
_LARGE = 128
"""Processors from which on a job of the log of external ones counts."""
_OVERHEADS = 4
"""The generator of overheads; each log has that of its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedLog(PublishedLog):
    """A log of table 4.1, with its load by estimates in %."""

    estimated: float


LOCAL = {
    "A": EstimatedLog(name="CTC-SP2-1996-3.1-cln", procs=430, load=57, estimated=192),
    "B": EstimatedLog(name="HPC2N-2002-2.2-cln", first_day=30, procs=240, load=54, estimated=107),
    "C": EstimatedLog(name="SDSC-SP2-1998-4.2-cln", procs=128, load=51, estimated=288),
}
_EXTERNAL = "SDSC-BLUE-2000-4.2-cln"
EXTERNAL = {
    16: EstimatedLog(name=_EXTERNAL, procs=_ALL, load=16, smallest=_LARGE, estimated=55),
    31: EstimatedLog(name=_EXTERNAL, procs=_ALL, load=31, smallest=_LARGE, estimated=91),
}
"""The external loads."""


def flexco_runs(points: Sequence[Parameters], traces: Path) -> RunList:
    """Return the runs of points. Raises :class:`UsageError` for a log that is not there."""
    names = [*(log.name for log in LOCAL.values()), _EXTERNAL]
    return RunList("flexco", VERSION, flexco_run, list(points), find_logs(names, traces))


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
        "measure": [0, int(run["days"]) * DAY],
        "jobs": entries,
    }


def published(run: Parameters, name: str) -> EstimatedLog:
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


def _scale(log: EstimatedLog, jobs: Sequence[TraceJob], days: int) -> float:
    """Return by how much what estimates have more than run times is multiplied to give the published load."""
    real = sum(job.procs * job.run for job in jobs)
    more = sum(job.procs * (job.estimate - job.run) for job in jobs)
    return max(log.estimated / 100 * log.procs * days * DAY - real, 0) / more if more else 0.0


def _overheads(seed: int, jobs: int) -> list[int]:
    """Return overheads in %, each drawn until it is below 25."""
    numbers = np.random.default_rng([seed, _OVERHEADS])
    drawn = numbers.poisson(20, jobs)
    while (large := drawn >= 25).any():
        drawn[large] = numbers.poisson(20, int(large.sum()))
    return [int(overhead) for overhead in drawn]


def _month(run: Parameters, places: Mapping[str, str], name: str) -> LogPart:
    log = published(run, name)
    kind = list(LOCAL).index(name) if name in LOCAL else len(LOCAL)
    return part_of_log(log, places[log.name], int(run["days"]), int(run["seed"]), kind)
