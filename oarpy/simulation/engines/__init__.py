"""Virtual time and the schedulers that it drives: the production planner, and the counting FCFS and EASY.

- ``engine``: the clock of a replay. ``machine``: its processors. ``policies``: schedulers by name.
- ``production``, ``live_order`` and ``predicted``: the planner of the cluster. ``baselines`` and ``draining``:
  processors as a number, which is fast, and the oracle of the planner's own policies.
- ``history_replay``: a site's past, with all decisions of passes. ``queue_order``: orders of a trace.

May import ``traces``, ``oarpy.scheduler`` and ``oarpy.model``.
"""

from __future__ import annotations
