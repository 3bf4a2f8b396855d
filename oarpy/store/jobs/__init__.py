"""Jobs in SQL: how they come in, what happens to them, and what people read of them.

- ``submissions`` and ``resubmission`` insert jobs; ``scope`` says which jobs a query is about.
- ``requests``, ``kill_requests``, ``suspensions`` and ``walltime_changes`` store what users ask for jobs that are
  there.
- ``extensions`` and ``resizes``: running jobs that grow and shrink.
- ``windows`` are those of reservations, with their moves, and what refused ones are offered.
- ``bags`` are bags of tasks, with what was promised of each.
- ``execution`` and ``server_scripts`` are the life of a job as launcher and canceller write it.
- ``job_listing``, ``details``, ``history`` and ``notices`` read jobs for users, replays and the notifier.

A job is *live* until it is Terminated or in Error; live jobs are found through partial indexes. May import the rest of
``oarpy.store`` but ``schema``, and what that may import.
"""

from __future__ import annotations
