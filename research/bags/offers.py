"""The runs of the experiment on bags with deadlines: two months of five logs, and of a sixth whose jobs are bags.

Each is a file of ``oarpy grid simulate``. Logs are brought to their published loads, the same for all seeds: a seed
draws the deadlines alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oarpy.grid.simulation.command import object_of
from research.runs.experiment import Parameters, RunList, Values, uncollected
from research.runs.published_logs import DAY, LogPart, PublishedLog, find_logs, part_of_log

VERSION = 1
KINDS = ("local", "external", "all")
DELAYS = ("delayed", "work_delayed", "tw_delay")
METRICS = (*(f"{kind}_{delay}" for kind in KINDS for delay in DELAYS), "clusters_per_bag", "utilisation")
_HOUR = 3600
_SHARES = (10, 25, 50, 75, 100)
_HPC2N = "HPC2N-2002-2.2-cln"

LOCAL = {
    "C1": PublishedLog(
        name="CTC-SP2-1996-3.1-cln", procs=430, load=49, largest=306, shortest=_HOUR, longest=18 * _HOUR
    ),
    "C2": PublishedLog(name=_HPC2N, first_day=30, procs=240, load=56, largest=128, shortest=_HOUR, longest=120 * _HOUR),
    "C3": PublishedLog(
        name=_HPC2N, first_day=395, procs=240, load=48, largest=128, shortest=_HOUR, longest=120 * _HOUR
    ),
    "C4": PublishedLog(
        name="SDSC-SP2-1998-4.2-cln", procs=128, load=54, largest=115, shortest=_HOUR, longest=18 * _HOUR
    ),
    "C5": PublishedLog(
        name="LPC-EGEE-2004-1.2-cln",
        procs=140,
        load=52,
        shortest=2 * _HOUR,
        longest=72 * _HOUR,
        scaled=(6574, 60),
    ),
}
EXTERNAL = PublishedLog(
    name="SDSC-BLUE-2000-4.2-cln",
    procs=1178,
    load=54,
    smallest=64,
    largest=632,
    shortest=_HOUR,
    longest=36 * _HOUR,
)
WORKLOADS = {**LOCAL, "external": EXTERNAL}
"""The rows of table 6.2; records are drawn by the generator of their place."""
_RECORDS_SEED = 1
SCHEMAS = {1: (18 * _HOUR, 36 * _HOUR, 10 * DAY), 2: (12 * _HOUR, DAY, 7 * DAY)}
"""Seconds that a job may end later than it would at once."""


def offers_runs(points: Sequence[Parameters], traces: Path) -> RunList:
    """Return the runs of points. Raises :class:`UsageError` for a log that is not there."""
    names = {log.name: None for log in WORKLOADS.values()}
    return RunList("offers", VERSION, offers_run, list(points), find_logs(names, traces))


@uncollected
def offers_run(run: Parameters, places: Mapping[str, str]) -> Values:
    """Do one run; return its metrics, and what its workload is."""
    metrics = object_of(json.dumps(scenario(run, places)))["metrics"]
    delays = {f"{kind}_{delay}": metrics[kind][delay] for kind in KINDS for delay in DELAYS}
    parts = {name: _part(run, places, name) for name in WORKLOADS}
    return {
        **delays,
        "clusters_per_bag": metrics["clusters_per_bag"],
        "utilisation": metrics["utilisation"],
        "inputs": {name: [len(part.jobs), part.lost, part.added, part.load] for name, part in parts.items()},
    }


def scenario(run: Parameters, places: Mapping[str, str]) -> dict[str, Any]:
    """Return the file of a run: local jobs, and bags of one-processor tasks, each with a deadline."""
    entries = [entry for name in WORKLOADS for entry in _entries(name, _part(run, places, name))]
    entries.sort(key=lambda entry: entry["submit"])
    numbers = np.random.default_rng([int(run["seed"]), len(WORKLOADS)])
    laxities = numbers.choice(SCHEMAS[int(run["schema"])], len(entries))
    for entry, laxity in zip(entries, laxities, strict=True):
        entry["deadline"] = entry["submit"] + entry["run"] + int(laxity)
    return {
        "system": "offers",
        "engine": "counting",
        "offers": {"policy": run["policy"], "shares": list(_SHARES)},
        "clusters": [{"name": name, "procs": log.procs} for name, log in LOCAL.items()],
        "measure": [0, int(run["days"]) * DAY],
        "jobs": entries,
    }


def _entries(name: str, part: LogPart) -> list[dict[str, Any]]:
    entries = []
    for place, job in enumerate(part.jobs):
        entry: dict[str, Any] = {"id": f"{name}-{place}", "submit": job.submit, "procs": job.procs, "run": job.run}
        if name == "external":
            entry |= {"id": f"b{place}", "tasks": job.procs, "procs": 1}
        else:
            entry["cluster"] = name
        entries.append(entry)
    return entries


def _part(run: Parameters, places: Mapping[str, str], name: str) -> LogPart:
    log = WORKLOADS[name]
    return part_of_log(log, places[log.name], int(run["days"]), _RECORDS_SEED, list(WORKLOADS).index(name))
