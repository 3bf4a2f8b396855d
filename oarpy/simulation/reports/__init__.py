"""The figures of a replay and their presentation.

``metrics`` has the figures, ``report`` the summary of a trace, ``history_report`` that of a site's past and
``esp2_report`` that of ESP2. ``output_files`` writes files and draws the progress bar. May import ``engines``,
``traces``, ``workloads`` and ``oarpy.model``.
"""

from __future__ import annotations
