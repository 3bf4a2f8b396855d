"""What a scheduling pass reads and writes, and its answers as people ask for them.

- ``snapshot_rows`` and ``quotas`` are read before a pass; ``decisions`` writes what it decided, ``window_moves``
  reads windows and writes moves inside them, ``bag_promises`` bags and what is promised of them.
- ``state_statistics`` has PostgreSQL count jobs when many more wait than it knows of.
- ``last_answer`` and ``gantt`` read what the last pass answered, for ``oarstat``.

A *pass* is one transaction with a handful of statements, however many jobs wait. May import the rest of ``oarpy.store``
but ``schema``, and what that may import.
"""

from __future__ import annotations
