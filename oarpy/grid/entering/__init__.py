"""``oargridsh``: a program on a host of another part of one's job, for its user alone.

- ``from_jobs`` is the side of the job: its own hosts as ``oarsh`` enters them, others by the door of the broker.
- ``by_broker`` is that door, for clusters that ask, and for users at the broker: it finds the part and its cluster.
- ``passage`` carries streams through the door behind.

The other cluster's side is :mod:`oarpy.grid.door.entering`.
"""

from __future__ import annotations
