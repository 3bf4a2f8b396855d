"""The submission gateway: it runs the commands of users who have no way to the database.

::

    command --socket--> intake --> queue, one user after the other --> idle worker --> answers the command itself
                          |                                              ^  '--fork--> session: a shell, a program
              pool: forks workers, kills late ones, replaces dead ones --'
    node's command --call request--> calls --fork--> call_session: fetches it from the node, speaks for its user

- ``gateway`` is the process that never waits; ``listener`` and ``intake`` take requests, ``pool`` and ``calls`` fork.
- ``worker`` and ``execution`` run one command at a time, for the caller that the kernel names (``remote_caller``,
  ``attached_streams``).
- ``sessions`` limits the processes that stay with users; ``commands`` lists the allowed commands.

May import ``oarpy.commands``, ``oarpy.client`` and everything below them.
"""

from __future__ import annotations
