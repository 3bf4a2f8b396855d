"""What pages draw: whole platforms, periods and pages of jobs, read set-wise and compactly.

``cells`` has the resources of now, ``job_sizes`` how large jobs are, ``gantt_spans`` who held what in a period,
``job_course`` the states of one job, ``node_course`` those of a node, ``week`` how busy each hour was, ``consumption``
sums by day, ``reservations`` those to come, ``shares`` queues and fair share. A *cell* is a resource of type default.
May import ``oarpy.store.past`` and ``oarpy.store.database``.
"""

from __future__ import annotations
