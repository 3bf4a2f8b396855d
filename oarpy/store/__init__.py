"""Every line of SQL: connections, tables, queries, notifications. The caller owns the transaction."""

from __future__ import annotations
