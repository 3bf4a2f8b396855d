"""The processes of a running cluster, one file or folder each; they talk only through the database.

- ``automaton`` takes events and tells modules to run. ``metascheduler`` decides, ``launcher`` starts and ends jobs on
  nodes, ``canceller`` carries out kill requests, ``monitor`` suspects silent nodes. ``accounting`` counts, ``energy``
  lets nodes sleep, ``notifier`` sends mails and messages to users.
- ``loop`` is the common part of all modules; ``registry`` knows them by name; ``supervisor`` keeps them running on a
  server, each a ``forked_program``.

A *module* is an object with ``run_once(connection, now)``. It keeps no truth: its memory can be rebuilt from the
database. For each module one process in the cluster *leads*, by an advisory lock.

May import ``oarpy.simulation``, ``oarpy.admission``, ``oarpy.transport`` and everything below them.
"""

from __future__ import annotations
