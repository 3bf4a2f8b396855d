"""Bags of equal tasks on one cluster: when so many tasks can be done, and what comes forward when a job ends early.

- ``tasks``: tasks that are placed one after the other, in groups of one start.
- ``offers``: the completions that a cluster can promise for shares of a bag, with a deadline or without.
- ``advancing``: tasks that a bag would gain nothing by let others go first.
- ``bag_pass``: the step of a pass of a cluster, on the planner's Gantt.

After chapters 6 and 7 of M. A. S. Netto, "Adaptive Co-Allocation of Distributed Resources for Parallel Applications"
(2009). Pure; the first three ask ``oarpy.profiles`` what is free.
"""

from __future__ import annotations
