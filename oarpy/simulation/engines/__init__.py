"""Virtual time and what is driven by it: the production planner, and the counting FCFS and EASY.

- ``engine``: the clock of a replay. ``machine``: what it runs on. ``policies``: schedulers by name.
- ``production``, ``live_order`` and ``predicted``: the planner of the cluster. ``baselines`` and ``draining``:
  processors as a number, which is fast, and the oracle of the planner's own policies.
- ``history_replay``: a site's past, with everything that a pass decides. ``queue_order``: orders of a trace.

May import ``traces``, ``oarpy.scheduler`` and ``oarpy.model``.
"""

from __future__ import annotations
