"""The schema of the database, for ``oarpy db`` and tests; programs that run jobs import nothing of this.

- ``columns`` has the words in which tables are described, with their columns, constraints, indexes and comments.
- ``rules``, ``platform``, ``projects``, ``submissions``, ``recurrence``, ``jobs``, ``assignments``, ``requests``,
  ``windows``, ``bags``, ``mappings``, ``journal``, ``negotiation``, and the folder ``grid``, describe the tables.
  ``tables`` collects all of them, with the rows that they have from the start.
- Functions with their triggers, and views, are one file each below ``migrations/schema``, which ``statements`` reads.
- ``migrations`` brings a database to this schema; ``checks`` has the comparisons.

May import SQLAlchemy and Alembic, ``oarpy.store.database``, ``oarpy.store.past`` and ``oarpy.model``; no other part of
``store``.
"""

from __future__ import annotations
