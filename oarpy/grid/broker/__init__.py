"""The broker of real clusters: its decisions are those of ``oarpy.grid.core``, its memory is the database.

- ``errands``: conversations with clusters. ``soundings``, ``claim_attempts``: jobs whose components start
  together at a deadline.
"""

from __future__ import annotations
