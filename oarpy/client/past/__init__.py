"""The past of a site: what was used, who held what, and the same jobs replayed under other settings.

- ``history_replay`` is ``oarpy simulate --from-database``: ``workload`` reads the past, ``admission`` applies other
  rules. ``simulation`` tells which form of the command is meant.
- ``accounting`` and ``consumption`` are about sums of resource-seconds, ``gantt_chart`` and ``period_reports`` about a
  period; ``periods`` reads how users write one.

May import the rest of ``oarpy.client`` and what that may import.
"""

from __future__ import annotations
