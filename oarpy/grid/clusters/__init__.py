"""The kinds of clusters, as a broker sees them: each answers calls (:class:`oarpy.grid.calls.table.Cluster`).

- ``oarpy_cluster``: a cluster that runs oarpy, asked at its door over a ``door_channel``.
- ``slurm``: a cluster that runs Slurm, asked by its commands.
- ``virtual``: a cluster in memory, whose clock and faults are given.
"""

from __future__ import annotations
