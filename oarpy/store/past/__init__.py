"""Jobs of closed months: tables of their own, a partition a month, which can be archived, dropped and restored.

Schema ``oar_past`` has, for each table that hangs on a submission, a table of the same name and columns, partitioned by
``month``. Schema ``oar_all`` has views of both, the live table and the past one.

- ``tables`` finds the tables that hang on a submission by their foreign keys. ``structure`` makes both schemas follow
  the live tables.
- ``moving`` files whole submissions away, and gets them back when a live job needs one. ``reading`` runs the queries
  of the live tables over both, or over the past alone. ``months`` lists and drops.
- ``archives`` has the contents of archive files: manifests, rows out, rows in.

May import ``oarpy.store.database`` and ``oarpy.model``.
"""

from __future__ import annotations
