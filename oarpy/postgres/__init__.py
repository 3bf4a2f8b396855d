"""The embedded PostgreSQL server: its programs, its account, its settings and its processes.

May import ``oarpy.model`` alone.
"""

from __future__ import annotations
