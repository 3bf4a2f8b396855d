"""Bags of equal tasks on one cluster: when the tasks can be done, and which of them move forward after an early end.

- ``tasks``: tasks that are placed one after the other, in groups that start together.
- ``offers``: the completions that a cluster can promise for shares of a bag, with or without a deadline.
- ``advancing``: moves jobs and tasks forward after an early end. Tasks that do not speed up their bag go last.
- ``bag_pass``: the step of a pass of a cluster, on the planner's Gantt.

After chapters 6 and 7 of M. A. S. Netto, "Adaptive Co-Allocation of Distributed Resources for Parallel Applications"
(2009). The package is pure. The first three modules use ``oarpy.profiles`` to find free processors.
"""

from __future__ import annotations
