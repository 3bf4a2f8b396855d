"""What a scheduling pass reads and writes: rows of the snapshot, decisions, predictions, quotas, the Gantt."""

from __future__ import annotations
