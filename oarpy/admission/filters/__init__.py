"""Property filters: PostgreSQL's grammar, an allow-list, evaluation in Python and as bound SQL."""

from __future__ import annotations
