"""The processes of a pool end with the one that started them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Event

from oarpy.postgres.processes import alive
from research.benchmarks.server_processes import children_of
from research.runs.experiment import Parameters, Values
from tests.harness.waiting import until

ROOT = Path(__file__).resolve().parents[2]
RUN = "from research.runs.pools import local_pool; from tests.sim.test_pools import endless; {}"


def endless(run: Parameters, places: Mapping[str, str]) -> Values:
    """Tell that a run has begun, and do it for ever."""
    Path(places["begun"], str(run["number"])).touch()
    Event().wait()
    return {}


def test_a_killed_pool_leaves_no_runs_behind(tmp_path: Path) -> None:
    runs = f"list(local_pool(2)(endless, [{{'number': 1}}, {{'number': 2}}], {{'begun': {str(tmp_path)!r}}}))"
    with subprocess.Popen([sys.executable, "-c", RUN.format(runs)], cwd=ROOT) as pool:
        until(lambda: len(list(tmp_path.iterdir())) == 2, "both runs have begun")
        workers = children_of(pool.pid)
        pool.send_signal(signal.SIGKILL)
    assert len(workers) >= 2
    until(lambda: not any(map(alive, workers)), "the workers are gone")
