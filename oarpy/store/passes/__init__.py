"""The rows that a scheduling pass reads and writes, and its answers for users.

- ``snapshot_rows`` and ``quotas`` are read before a pass; ``decisions`` writes its decisions, ``window_moves``
  reads windows and writes moves inside them, ``bag_promises`` reads bags and writes their promises, ``mapped_jobs``
  does so with programs on unlike nodes and their maps.
- ``project_use``: projects, and the used and left part of their hours.
- ``state_statistics`` has PostgreSQL count jobs when many more wait than it knows of.
- ``last_answer`` and ``gantt`` read the answers of the last pass, for ``oarstat``.

A *pass* is one transaction with a handful of statements, however many jobs wait. May import the rest of ``oarpy.store``
but ``schema``, and all that these packages may import.
"""

from __future__ import annotations
