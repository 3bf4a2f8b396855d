#!/usr/bin/env python3
"""Optimise DTLZ6 on many islands, and print how far the result is from the exact front.

    run_islands.py                                   in a job with a map: on its cores, of all its clusters
    mpirun python3 run_islands.py --mpi              the same over MPI, a rank a core, where mpi4py is
    run_islands.py --serial MAP                      what such a map says, one process after another, on this machine
    run_islands.py --processes 8 --cores 2           on this machine
    run_islands.py --rate random 50                  one process alone: prints its iterations a second

As a job with a map, whose rates ``rate.sh`` measures by the last form:

    oarsub --processes 8 --iterations 200 --sizes regular,random --rate ./rate.sh -l core=2 "python3 run_islands.py"
"""

from __future__ import annotations

import argparse
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from oarpy.examples.island_optimiser import mapped_run
from oarpy.examples.island_optimiser.dtlz6 import VARIABLES, epsilon, front, objectives
from oarpy.examples.island_optimiser.islands import TOPOLOGIES
from oarpy.examples.island_optimiser.mapped_run import Core, CoreMap, Island, Process, Workers, read_map, result, serial

_POINTS_OF_FRONT = 500
_HERE = "localhost"


def start(core: Core) -> subprocess.Popen[bytes]:
    """Start a worker on a core: on the hosts of a job's map over oarsh or oargridsh, else on this machine."""
    words = [sys.executable, "-m", mapped_run.__name__]
    path = os.environ.get("PYTHONPATH")
    elsewhere = shlex.join([*(["env", f"PYTHONPATH={path}"] if path else []), *words])
    if core.host != _HERE and "OAR_GRID_MAPFILE" in os.environ:
        words = ["oargridsh", core.host, elsewhere]
    elif core.host != _HERE and (job := os.environ.get("OAR_JOB_ID")):
        words = ["oarsh", "-j", job, core.host, elsewhere]
    return subprocess.Popen(words, stdin=subprocess.PIPE)


def in_turn(options: argparse.Namespace) -> CoreMap:
    """Return a map without rates: cores and sizes take turns."""
    found: dict[Core, list[Process]] = {}
    for number in range(options.processes):
        size = options.sizes[number % len(options.sizes)]
        core = Core(_HERE, number % options.cores)
        found.setdefault(core, []).append(Process(number, size, options.iterations))
    return found


def print_rate(size: str, iterations: int, island: Island) -> None:
    """Run a process alone, and print its iterations a second."""
    began = time.monotonic()
    result(Process(0, size, iterations), np.empty((0, VARIABLES)), island)
    print(f"rate {iterations / (time.monotonic() - began)}")


def run(options: argparse.Namespace) -> None:
    """Run all processes, and print what came of them."""
    file = options.serial or os.environ.get("OAR_GRID_MAPFILE") or os.environ.get("OAR_MAPFILE")
    core_map = read_map(Path(file).read_text(encoding="utf-8")) if file else in_turn(options)
    if unknown := {process.size for line in core_map.values() for process in line} - set(TOPOLOGIES):
        raise SystemExit(
            f"run_islands: size {min(unknown)} of the map is no topology; there are {', '.join(TOPOLOGIES)}"
        )
    began = time.monotonic()
    if options.serial:
        values = objectives(serial(core_map, options.island))
    elif options.mpi:
        from oarpy.examples.island_optimiser import mpi_run

        values = objectives(mpi_run.run(core_map, options.island, asynchronous=options.model == "async"))
        if not mpi_run.LEADS:
            return
    else:
        with Workers(core_map, start, options.address if file else _HERE) as workers:
            compute = workers.asynchronous if options.model == "async" else workers.synchronous
            values = objectives(compute(core_map, options.island))
    count = sum(map(len, core_map.values()))
    far = epsilon(values, front(_POINTS_OF_FRONT))
    print(f"{count} processes on {len(core_map)} cores: epsilon {far:.6f}, {time.monotonic() - began:.1f} s")


def main(words: Sequence[str]) -> None:
    """Run on these arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rate", nargs=2, metavar=("SIZE", "ITERATIONS"), help="measure one process")
    parser.add_argument("--serial", metavar="MAP", help="do what the file of a map says, in series")
    parser.add_argument("--mpi", action="store_true", help="this is a rank of mpirun")
    parser.add_argument("--model", choices=("sync", "async"), default="sync")
    parser.add_argument("--individuals", type=int, default=256, help="of each island")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--address", default=socket.gethostname(), help="where the hosts reach this program")
    alone = parser.add_argument_group("without a map")
    alone.add_argument("--processes", type=int, default=8)
    alone.add_argument("--iterations", type=int, default=200, help="of each process")
    alone.add_argument("--sizes", type=lambda text: text.split(","), default=list(TOPOLOGIES))
    alone.add_argument("--cores", type=int, default=1)
    options = parser.parse_args(words)
    options.island = Island(options.individuals, options.seed)
    if options.rate and not (options.rate[1].isdecimal() and int(options.rate[1])):
        parser.error(f"{options.rate[1]}: no number of iterations")
    sizes = options.rate[:1] if options.rate else options.sizes
    if unknown := [size for size in sizes if size not in TOPOLOGIES]:
        parser.error(f"{unknown[0]}: no topology; there are {', '.join(TOPOLOGIES)}")
    if min(options.processes, options.iterations, options.cores) < 1 or options.individuals < 32:
        parser.error("there must be a process, an iteration, a core, and 32 individuals at least")
    try:
        if options.rate:
            print_rate(options.rate[0], int(options.rate[1]), options.island)
        else:
            run(options)
    except OSError as error:
        raise SystemExit(f"run_islands: {error}") from None


if __name__ == "__main__":
    main(sys.argv[1:])
