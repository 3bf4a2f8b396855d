"""What calls of a broker are answered with, a subject each: functions of the context and the call.

- ``parts`` makes, freezes, commits, aborts and cancels parts; ``part_submission`` submits the jobs that they are.
- ``part_events`` tells what waits and what happened. ``evictions`` ends local jobs, as far as their owner lets them.
- ``estimates``, ``idle_processors`` and ``free_slots`` come from ``planned_queues``, the plan of a session.

A function runs in a transaction that its caller has begun. May import what ``oarpy.grid.door`` may.
"""

from __future__ import annotations
