"""The Gantt of a pass: the free resources over time, and the earliest place for a job.

- ``timeline``, ``sparse_timeline``, ``amount_timeline``: resources, and amounts of consumables, over time.
- ``wide_timeline``: the same for very many resources, by ``gaps``, in which ``gap_search`` finds dates.
- ``sharing``: the timelines that each kind of job sees. ``gantt``: all claims.
- ``search``, ``shared_search``: the earliest place. ``slot_windows``, ``free_counts`` and ``known_lower_bounds`` make
  it fast. ``demands``: jobs made ready for it.

A *slot* is a stretch of the *timeline* during which the same resources are free. A *window* is a run of consecutive
slots long enough for a job. A *claim* is a place taken. A *view* is the set of free resources that one job sees.

May import ``oarpy.model``, ``resources``, the snapshot, ``job_roles`` and the quotas of ``order``.
"""

from __future__ import annotations
