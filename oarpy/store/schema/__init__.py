"""The schema of the database, for ``oarpy db`` and tests; what runs jobs imports nothing of this.

- Tables with their columns, constraints, indexes and comments: ``columns`` has the words, ``rules``, ``platform``,
  ``submissions``, ``jobs``, ``assignments``, ``requests`` and ``journal`` the tables, ``tables`` all of them and
  the rows that they have from the start.
- Functions with their triggers, and views: one file each below ``migrations/schema``, which ``statements`` reads.
- ``migrations`` brings a database to this schema, ``check`` compares, ``catalog`` reads what a server has.

May import SQLAlchemy and Alembic, ``oarpy.store.database`` and ``oarpy.model``; no other part of ``store``.
"""

from __future__ import annotations
