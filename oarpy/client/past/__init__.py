"""The past of a site: consumption, held resources, and the same jobs replayed under other settings.

- ``history_replay`` is ``oarpy simulate --from-database``: ``workload`` reads the past, ``admission`` applies other
  rules. ``simulation`` finds which form of the command is meant.
- ``accounting`` and ``consumption`` are about sums of resource-seconds, ``gantt_chart`` and ``period_reports`` about a
  period; ``periods`` reads periods as users write them.

May import the rest of ``oarpy.client`` and all that it may import.
"""

from __future__ import annotations
