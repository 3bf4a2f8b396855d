"""The platform in SQL: the machines of jobs, and the rules of an admin about them.

- ``nodes``, ``power``, ``reboots`` and ``elastic``: channels to nodes, faults, lost and sleeping nodes, nodes made when
  needed.
  ``site``: this installation's id.
- ``resources``, ``properties`` and ``consumables``: everything that jobs hold, and the columns by which it is found.
- ``cluster_links``: latency and bandwidth between clusters.
- ``projects``: who pays for jobs, and their members.
- ``queues`` and ``admission_rules``: the order of service, and the checks of a submission.

A *node* is a machine, a *resource* the smallest thing a job can hold, a *block* all resources with one value of a
property. May import the rest of ``oarpy.store`` but ``schema``, and all that these packages may import.
"""

from __future__ import annotations
