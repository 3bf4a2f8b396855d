"""Rules of a pass besides placing: what holds before, between and after the searches.

- ``giving_way``: which best-effort jobs are cancelled. ``reservations`` and ``reservation_repair``: what becomes of
  accepted reservations; ``amendments``: new ones in the place of these.
- ``suspended_jobs``: who goes on. ``walltime_changes``: who may run longer. ``energy``: which nodes sleep.
- ``dates`` and ``dependencies``: when a job may start at the earliest and at the latest.

May import the rest of ``oarpy.scheduler`` but ``decide``, which asks these rules in their order.
"""

from __future__ import annotations
