"""The meta-scheduler: reads a snapshot, asks the scheduler to decide, writes the decisions."""

from __future__ import annotations
