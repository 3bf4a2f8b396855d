"""Every line of SQL, by its subject.

- ``jobs``: submissions, the life of a job, requests of users and messages to them. ``passes``: the rows that a
  scheduling pass reads and writes. ``platform``: nodes, resources, queues, admission rules. ``past``: jobs of closed
  months. ``schema``: the description of the tables, for ``oarpy db`` alone.
- ``database`` connects, ``rows`` reads by name, ``notifications`` hurries modules up, ``events`` logs. ``accounting``
  counts consumption, ``query`` runs the statements of analysts.

A *row* is a frozen value that a query returns; a *scope* says which jobs or resources a query is about. Statements are
set-wise constants with a comment of purpose. Nothing here commits: the caller owns the transaction.

May import ``oarpy.postgres``, ``oarpy.configuration``, ``oarpy.model`` and ``oarpy.wire``.
"""

from __future__ import annotations
