"""An optimiser of many islands, to be mapped over nodes of different speed: ``oarsub --processes``.

- ``dtlz6``: the problem, its exact front, and how far a result is from it.
- ``islands``: one process, an island whose individuals are neighbours by one of four topologies, its size.
- ``mapped_run``: processes on cores as a map says, in stages or each on its own, over sockets.
- ``mpi_run``: the same over MPI.
- ``run_islands`` runs it, in a job with a map, or without one on this machine.

The nodes need NumPy.
"""

from __future__ import annotations
