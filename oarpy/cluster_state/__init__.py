"""The state of the cluster as the scheduler sees it: read for passes, for questions about them, and for traces.

- ``snapshot_reader`` reads a snapshot; ``stored_jobs`` are what rows of jobs say. ``waiting_rows``, ``quota_rules``,
  ``pass_limits``, ``outages``, ``priority_history`` and ``window_line`` read a part of it each.
  ``state_part`` is what slices add; ``bags`` is the one for bags of tasks.
- ``order_plugins`` has the orders that queues may name; ``past_starts`` learns from starts that were foretold.
- ``array_tails`` says which members of large arrays a pass that decides starts alone leaves out;
- ``set_aside`` says what becomes of rows and jobs that cannot be read or decided about.
- ``what_if`` and ``existing_resources`` answer commands: a pass with a job more, and what could ever be had.
- ``trace`` writes a snapshot and what was decided as JSON.

Nothing is decided or written to the database here. May import ``oarpy.admission``, ``oarpy.store``,
``oarpy.scheduler`` and everything below them.
"""

from __future__ import annotations
