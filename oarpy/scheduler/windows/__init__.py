"""Reservations that may move inside their *windows*: who comes first, who is admitted, what else could be had.

- ``window_jobs``: a job with its window, and the orders of their queue.
- ``admission``: a new job is accepted where nobody loses his window; else it gets offers.

After chapter 3 of M. A. S. Netto, "Adaptive Co-Allocation of Distributed Resources for Parallel Applications" (2009).
These two ask a timeline of ``oarpy.profiles`` what is free. On a cluster:

- ``reservation_windows``: what a snapshot says of windows.
- ``named_timeline``: the planner's Gantt as such a timeline.
- ``window_pass``: the step of a pass.
"""

from __future__ import annotations
