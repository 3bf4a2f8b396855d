"""The optimiser of the examples on nodes that are made unlike: an iteration takes at least so long on a node.

``padded_islands rate SIZE ITERATIONS`` prints the rate on this node; ``padded_islands run MODEL`` does what the job's
map says; ``padded_islands work PACE`` is a worker. The pace of a node is the milliseconds of an iteration of the size
``regular``, and at the end of its name: ``node3-6`` has a pace of 6. Other sizes take as much longer as was published.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from oarpy.examples.island_optimiser import mapped_run
from oarpy.examples.island_optimiser.dtlz6 import VARIABLES, Values, epsilon, front, objectives
from oarpy.examples.island_optimiser.mapped_run import Core, Island, Process, Workers, read_map

WEIGHTS = {"regular": 1.0, "scale-free": 0.96, "small-world": 3.05, "random": 3.3}
"""How much longer than on a regular island an iteration takes: rates of table 5.3 of the thesis, on paradent."""
_ISLAND = Island(individuals=64, seed=1)
_FRONT = 500


def pace_of(host: str) -> float:
    """Return the pace of a node in milliseconds."""
    return float(host.rpartition("-")[2])


def padded(pace: float, process: Process, archive: Values, island: Island) -> Values:
    """Return what a process finds from an archive, once its iterations have taken as long as they do on this node."""
    until = time.monotonic() + process.iterations * WEIGHTS[process.size] * pace / 1000
    found = mapped_run.result(process, archive, island)
    time.sleep(max(until - time.monotonic(), 0))
    return found


def measure(size: str, iterations: int) -> str:
    """Return the rate of a process on this node, as ``oarsub --rate`` wants to have it."""
    host = Path(os.environ["OAR_NODEFILE"]).read_text(encoding="utf-8").split()[0]
    began = time.monotonic()
    padded(pace_of(host), Process(0, size, iterations), np.empty((0, VARIABLES)), _ISLAND)
    return f"rate {iterations / (time.monotonic() - began)}"


def start(core: Core) -> subprocess.Popen[bytes]:
    """Start a worker on a core of the job."""
    words = [sys.executable, "-m", "research.mapping.padded_islands", "work", str(pace_of(core.host))]
    at_home = f"PYTHONPATH={os.environ['PYTHONPATH']} {' '.join(words)}"
    return subprocess.Popen(["oarsh", "-j", os.environ["OAR_JOB_ID"], core.host, at_home], stdin=subprocess.PIPE)


def run(model: str) -> str:
    """Do what the map says; return the seconds that the processes took, and how far the result is from the front."""
    core_map = read_map(Path(os.environ["OAR_MAPFILE"]).read_text(encoding="utf-8"))
    with Workers(core_map, start, "localhost") as workers:
        began = time.monotonic()
        compute = workers.asynchronous if model == "async" else workers.synchronous
        values = objectives(compute(core_map, _ISLAND))
        return f"{time.monotonic() - began} {epsilon(values, front(_FRONT))}"


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "work":
        mapped_run.work(partial(padded, float(arguments[0])))
    else:
        words = measure(arguments[0], int(arguments[1])) if what == "rate" else run(arguments[0])
        sys.stdout.write(f"{words}\n")
