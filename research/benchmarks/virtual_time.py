"""What planned starts cost without a server: common starts on many clusters, and runs of ``oarpy grid simulate``."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from oarpy.grid.core.coallocation.common_start import CoProvider, ParallelRequest, common_place, instants_from
from oarpy.profiles.profile import Profile
from research.reservations.flexco import EXTERNAL, flexco_runs, scenario
from research.runs.experiment import Parameters

TRACES = Path("../shared/traces")
_PROCS, _HOUR = 1000, 3600
_BUSY = 21 * 24
"""Hours in which jobs would like to begin, more than fit in."""
_KIB = 1024


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """A run of a file by a process of its own: its jobs, the seconds of the processor, the most memory in MiB."""

    jobs: int
    seconds: float
    mebibytes: float


_SIMULATED = """
import os, re, sys, time
from pathlib import Path
from oarpy.grid.simulation.command import run_grid
with open(os.devnull, "w") as out:
    status = run_grid(sys.argv[1:], out, sys.stderr)
print(time.process_time(), re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
sys.exit(status)
"""
"""A program that tells its most memory itself: its parent would be told the memory of the parent, if that has more."""


def simulated(document: Mapping[str, Any]) -> SimulatedRun:
    """Do what ``oarpy grid simulate`` does with a file."""
    with tempfile.TemporaryDirectory(prefix="oarpy-bench-") as folder:
        path = Path(folder) / "run.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        words = [sys.executable, "-c", _SIMULATED, str(path)]
        seconds, kibibytes = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return SimulatedRun(len(document["jobs"]), float(seconds), int(kibibytes) / _KIB)


def month_of_logs(traces: Path) -> SimulatedRun:
    """Simulate a month of three clusters, with many jobs over clusters, which are placed anew after early ends."""
    run: Parameters = {
        "days": 30,
        "scaled": 1,
        "external": max(EXTERNAL),
        "precision": 0.0,
        "operation": "remap",
        "seed": 1,
    }
    return simulated(scenario(run, flexco_runs([run], traces).places))


def common_starts(clusters: int = 10, slots: int = 1000, jobs: int = 200) -> dict[str, float]:
    """Return what finding a common start takes, in processor time; a slot is a time with so many processors free."""
    dice, seconds = random.Random(1), []
    providers = [CoProvider(f"c{number}", 1, _busy(dice, slots)) for number in range(clusters)]
    for _ in range(jobs):
        procs = int(clusters * _PROCS * dice.uniform(0.1, 1))
        request = ParallelRequest(procs, dice.uniform(0.1, 10) * _HOUR, 0.2)
        began = time.process_time()
        common_place(providers, request, instants_from(providers, 0))
        seconds.append(time.process_time() - began)
    return {"median_seconds": median(seconds), "longest_seconds": max(seconds)}


def _busy(dice: random.Random, slots: int) -> Profile:
    """Return the free processors of a cluster on which jobs of up to a day are planned for weeks, without many gaps."""
    profile = Profile(_PROCS, 0)
    while len(profile.ends(0)) < slots - 1:
        procs, time_here = dice.randint(1, _PROCS // 4), dice.uniform(0.1, 24) * _HOUR
        start = profile.earliest(procs, time_here, dice.uniform(0, _BUSY) * _HOUR)
        profile.hold(procs, start, start + time_here)
    return profile
