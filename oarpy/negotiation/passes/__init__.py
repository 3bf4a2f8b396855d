"""The reading and writing of passes for applications, and for running jobs that grow and shrink.

- ``application_line``: the applications in line, by rank. ``extension_line``: extensions, and hosts that may be taken
  from jobs.
- ``shown_clusters`` and ``cluster_facts``: the clusters that applications are shown.
- ``applications`` and ``extensions`` are the parts of the cluster's state: they also write decisions.

May import ``oarpy.cluster_state``, ``oarpy.scheduler``, ``oarpy.store`` and the layers below them.
"""

from __future__ import annotations
