"""Admission rules (load, run, trace, test) and property filters."""

from __future__ import annotations
