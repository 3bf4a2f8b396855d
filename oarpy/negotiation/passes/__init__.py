"""What a pass reads and writes of applications, and of running jobs that grow and shrink.

- ``application_line``: who is in line, by which rank. ``extension_line``: extensions, and hosts that may be taken from
  jobs. Both are parts of the state of the cluster.
- ``shown_clusters`` and ``cluster_facts``: what applications are shown.
- ``told_applications`` and ``told_extensions`` write what was decided.

May import ``oarpy.cluster_state``, ``oarpy.scheduler``, ``oarpy.store`` and what is below them.
"""

from __future__ import annotations
