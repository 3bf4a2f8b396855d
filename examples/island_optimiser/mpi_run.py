"""Processes on cores as a map says, over MPI: a rank a core, in the order of the map.

*Synchronous*: after each stage all ranks have all its results. *Asynchronous*: a rank that has ended a process tells
the others, takes what they have told by then, and goes on.

Needs mpi4py (Debian: python3-mpi4py).
"""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from oarpy.examples.island_optimiser.dtlz6 import VARIABLES, Values
from oarpy.examples.island_optimiser.islands import merged
from oarpy.examples.island_optimiser.mapped_run import CoreMap, Island, result

WORLD = MPI.COMM_WORLD
LEADS = WORLD.rank == 0
"""Whether this rank has the result of all."""


def run(core_map: CoreMap, island: Island, *, asynchronous: bool) -> Values:
    """Do what the map of the first rank says. Raises OSError where ranks are not as many as cores."""
    core_map = WORLD.bcast(core_map)
    if WORLD.size != len(core_map):
        raise OSError(f"{WORLD.size} ranks for {len(core_map)} cores: mpirun -np {len(core_map)}")
    return _asynchronous(core_map, island) if asynchronous else _synchronous(core_map, island)


def _synchronous(core_map: CoreMap, island: Island) -> Values:
    own = list(core_map.values())[WORLD.rank]
    archive = np.empty((0, VARIABLES))
    for stage in range(max(map(len, core_map.values()))):
        found = [result(own[stage], archive, island)] if stage < len(own) else []
        archive = merged(archive, *(values for its in WORLD.allgather(found) for values in its))
    return archive


def _asynchronous(core_map: CoreMap, island: Island) -> Values:
    own = list(core_map.values())[WORLD.rank]
    awaited = sum(map(len, core_map.values())) - len(own)
    archive, sent = np.empty((0, VARIABLES)), []
    for process in own:
        while awaited and WORLD.iprobe():
            archive, awaited = merged(archive, WORLD.recv()), awaited - 1
        found = result(process, archive, island)
        sent += [WORLD.isend(found, other) for other in range(WORLD.size) if other != WORLD.rank]
        archive = merged(archive, found)
    for _ in range(awaited):
        archive = merged(archive, WORLD.recv())
    MPI.Request.waitall(sent)
    return archive
