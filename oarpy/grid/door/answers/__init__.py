"""The answers to a broker's calls, in a module for each subject: functions of the context and the call.

- ``parts`` makes, freezes, commits, aborts and cancels parts; ``part_submission`` submits the jobs behind them.
- ``part_events`` lists waiting parts and events. ``evictions`` ends local jobs, as far as their owner lets them.
- ``estimates``, ``idle_processors`` and ``free_slots`` come from ``planned_queues``, the plan of a session.

A function runs in a transaction that its caller has begun. May import the packages that ``oarpy.grid.door`` may.
"""

from __future__ import annotations
