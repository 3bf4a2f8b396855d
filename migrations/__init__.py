"""Alembic migrations of the oarpy schema."""

from __future__ import annotations
