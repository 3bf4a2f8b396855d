"""The state of the cluster as the scheduler sees it: read for passes, for questions about them, and for traces.

- ``snapshot_reader`` reads a snapshot; ``stored_jobs`` are the rows of jobs. ``waiting_rows``, ``quota_rules``,
  ``pass_limits``, ``outages``, ``priority_history`` and ``window_line`` read a part of it each. ``state_part`` is the
  interface for slices that add to it; ``bags`` is the one for bags of tasks, ``mapped_jobs`` for programs on unlike
  nodes.
- ``order_plugins`` has the orders that queues may name. ``past_starts`` learns from past predictions of starts.
- ``array_tails`` chooses members of large arrays that a pass for starts alone leaves out.
- ``set_aside`` handles rows and jobs that cannot be read or decided about.
- ``what_if`` and ``existing_resources`` answer commands: a pass with one more job, and the resources that exist.
- ``trace`` writes a snapshot and the decisions as JSON.

Nothing is decided or written to the database here. May import ``oarpy.admission``, ``oarpy.store``, ``oarpy.scheduler``
and everything below them.
"""

from __future__ import annotations
