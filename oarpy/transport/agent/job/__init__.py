"""A job on its node: its record, the process that runs it, its walls, and how it is stopped and found.

::

    launcher --channel--> agent --socket, record with its lock--> supervisor --fork--> the job's processes
                            |                                       |  watches them, adopts what daemonises
                            |  follows records of other agents      '- writes the record, then tells the agent
                            '- sees its supervisors end, and ends what they left

- ``node_jobs`` decides about jobs, from each ``record`` and the ``tombstones``.
- ``supervisor_pool`` has idle ``supervisor`` processes; ``job_run`` is one job inside one, ``requests`` its orders.
- ``account``, ``environment``, ``spawning`` and ``isolation`` start the program; ``devices`` says which it may not
  open, ``device_walls`` has the kernel refuse them, ``private_directories`` gives it a ``/tmp`` of its own.
  ``processes``, ``foreign_processes`` and ``suspending`` find, end and stop its processes.

May import ``statedir``, ``outbox``, ``kill_notice``, ``usage``, ``gpus`` and ``steps.interactive_shell`` of the agent,
and ``oarpy.wire``.
"""

from __future__ import annotations
