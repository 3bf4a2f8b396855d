"""What planned starts cost without a server: common starts on many clusters, and runs of ``oarpy grid simulate``."""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oarpy.grid.core.coallocation.common_start import CoProvider, ParallelRequest, common_place, instants_from
from oarpy.local_cluster.sandbox import command
from oarpy.profiles.profile import Profile

TRACES = Path("../shared/traces")
_PROCS, _HOUR = 1000, 3600
_MIB = 1024


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """A run of a file by a process of its own: its jobs, the seconds of the processor, the most memory in MiB."""

    jobs: int
    seconds: float
    mebibytes: float


def simulated(document: Mapping[str, Any]) -> SimulatedRun:
    """Run a file of ``oarpy grid simulate``."""
    with tempfile.TemporaryDirectory(prefix="oarpy-bench-") as folder:
        path = Path(folder) / "run.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        words = [command("oarpy"), "grid", "simulate", str(path)]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"oarpy grid simulate ended with {process.returncode}")
    return SimulatedRun(len(document["jobs"]), used.ru_utime + used.ru_stime, used.ru_maxrss / _MIB)


def common_start_seconds(clusters: int = 10, slots: int = 1000, jobs: int = 60) -> list[float]:
    """Return what finding a common start takes, for jobs of all sizes, rising; a slot is a time with so many free."""
    dice, seconds = random.Random(1), []
    providers = [CoProvider(f"c{number}", 1, _busy(dice, slots)) for number in range(clusters)]
    for _ in range(jobs):
        procs = int(clusters * _PROCS * dice.uniform(0.05, 1))
        request = ParallelRequest(procs, dice.uniform(0.1, 10) * _HOUR, 0.2)
        began = time.process_time()
        common_place(providers, request, instants_from(providers, 0))
        seconds.append(time.process_time() - began)
    return sorted(seconds)


def _busy(dice: random.Random, slots: int) -> Profile:
    """Return the free processors of a cluster on which jobs of up to a day are planned for weeks."""
    profile = Profile(_PROCS, 0)
    while len(profile.ends(0)) < slots - 1:
        procs, time_here = dice.randint(1, _PROCS // 4), dice.uniform(0.1, 24) * _HOUR
        start = profile.earliest(procs, time_here, dice.uniform(0, 6 * 7 * 24) * _HOUR)
        profile.hold(procs, start, start + time_here)
    return profile
