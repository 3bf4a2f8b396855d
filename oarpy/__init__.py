"""oarpy: an OAR-style batch scheduler whose whole state is in PostgreSQL."""

from __future__ import annotations

__version__ = "0.1.0"
