"""Jobs in SQL: how they come in, how they change, and how they are read.

- ``submissions`` and ``resubmission`` insert jobs; ``scope`` says which jobs a query is about.
- ``requests``, ``kill_requests``, ``suspensions`` and ``walltime_changes`` store the requests of users about existing
  jobs.
- ``extensions`` and ``resizes``: running jobs that grow and shrink.
- ``windows`` has the windows of reservations, with their moves, and the offers to refused reservations.
- ``recurring`` has the series of recurring jobs, and what was submitted of each.
- ``bags`` has bags of tasks, each with its promise; ``rates`` has rates of programs, and the jobs that measure them.
- ``execution`` and ``server_scripts`` are the life of a job as launcher and canceller write it.
- ``job_listing``, ``details``, ``history`` and ``notices`` read jobs for users, replays and the notifier.

A job is *live* until it is Terminated or in Error; live jobs are found through partial indexes. May import the rest of
``oarpy.store`` but ``schema``, and all that these packages may import.
"""

from __future__ import annotations
