"""The Gantt of a pass: what is free when, and the earliest place for a job.

- ``timeline``, ``sparse_timeline``, ``amount_timeline``: resources, and amounts of consumables, over time.
- ``wide_timeline``: the same for very many resources, by ``gaps``, in which ``gap_search`` finds dates.
- ``sharing``, ``gantt``: who sees which of these, and who holds what.
- ``search``, ``shared_search``: the earliest place. ``slot_windows``, ``free_counts``, ``known_lower_bounds`` make it
  fast. ``demands``: jobs made ready for it.

A *slot* is a stretch of the *timeline* during which the same resources are free. A *window* is consecutive slots long
enough for a job, a *claim* a place taken, a *view* what one job sees as free.

May import ``oarpy.model``, ``resources``, the snapshot, ``job_roles`` and the quotas of ``order``.
"""

from __future__ import annotations
