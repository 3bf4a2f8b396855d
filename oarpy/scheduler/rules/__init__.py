"""Rules of a pass besides placing: they apply before, between and after the searches.

- ``giving_way``: the best-effort jobs to cancel. ``reservations`` and ``reservation_repair``: the fate of accepted
  reservations; ``amendments``: new reservations in the place of accepted ones.
- ``suspended_jobs``: suspended jobs that continue. ``walltime_changes``: longer and shorter walltimes. ``energy``:
  nodes to wake and to send to sleep.
- ``dates`` and ``dependencies``: the earliest and the latest start of a job.

May import the rest of ``oarpy.scheduler`` but ``decide``, which applies these rules in their order.
"""

from __future__ import annotations
