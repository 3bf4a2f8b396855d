"""Reservations that may move inside their *windows*: who comes first, who is admitted, what else could be had.

- ``window_jobs``: a job with its window, and the orders of their queue.
- ``admission``: a new job is accepted where nobody loses his window; else it gets offers.

After chapter 3 of M. A. S. Netto, "Adaptive Co-Allocation of Distributed Resources for Parallel Applications" (2009).
Pure; asks ``oarpy.profiles`` what is free.
"""

from __future__ import annotations
