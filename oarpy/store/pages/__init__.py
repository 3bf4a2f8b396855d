"""The data of pages: whole platforms, periods and pages of jobs, read set-wise and compactly.

``cells`` has the present state of resources, ``job_sizes`` the sizes of jobs, ``gantt_spans`` the resources that jobs
held in a period, ``job_course`` the states of one job, ``node_course`` the states of a node, ``week`` the load of each
hour, ``consumption`` sums by day, ``reservations`` the coming ones, ``shares`` queues and fair share. A *cell* is a
resource of type default. May import ``oarpy.store.past`` and ``oarpy.store.database``.
"""

from __future__ import annotations
