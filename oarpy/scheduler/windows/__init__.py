"""Reservations that may move inside their *windows*: their order, their admission, and offers of other starts.

- ``window_jobs``: a job with its window, and the orders of their queue.
- ``admission``: a new job is accepted if all others stay in their windows; else it gets offers.

After chapter 3 of M. A. S. Netto, "Adaptive Co-Allocation of Distributed Resources for Parallel Applications" (2009).
These two use a timeline of ``oarpy.profiles`` to find free resources. On a cluster:

- ``reservation_windows``: the windows in a snapshot.
- ``named_timeline``: the planner's Gantt as such a timeline.
- ``window_pass``: the step of a pass.
- ``further_tries``: reservations whose places the planner gave to jobs of other queues.
"""

from __future__ import annotations
