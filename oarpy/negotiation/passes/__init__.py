"""What a pass reads and writes of applications, and of running jobs that grow and shrink.

- ``application_line``: who is in line, by which rank. ``extension_line``: extensions, and hosts that may be taken from
  jobs.
- ``shown_clusters`` and ``cluster_facts``: what applications are shown.
- ``applications`` and ``extensions`` are the parts themselves: they also write what was decided.

May import ``oarpy.cluster_state``, ``oarpy.scheduler``, ``oarpy.store`` and what is below them.
"""

from __future__ import annotations
