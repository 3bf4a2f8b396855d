"""Clusters as a broker sees them: each answers calls (:class:`oarpy.grid.calls.table.Cluster`), a handler a call.

- ``oarpy_cluster``: asks the door of a cluster that runs oarpy, over a ``door_channel``.
- ``slurm_cluster``: asks Slurm by its commands; ``slurm_scripts``, ``slurm_jobs`` and ``slurm_marks`` are how.
- ``simulated_cluster``: a cluster in memory, whose clock and faults are given; ``counted_machine`` is what it runs on.
"""

from __future__ import annotations
