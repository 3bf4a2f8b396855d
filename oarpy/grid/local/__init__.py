"""Several clusters and a broker in one folder of this machine, for the demo, tests and measurements.

- ``local_grid``: their servers, the accounts of the broker and of its user, commands as that user. ``demo`` shows it.
- ``mpi_job``: a program of MPI over such clusters.

May import ``oarpy.local_cluster`` and everything below it.
"""

from __future__ import annotations
