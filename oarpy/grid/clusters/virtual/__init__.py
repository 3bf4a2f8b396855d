"""A cluster in memory: ``cluster`` answers calls, ``machine`` counts its processors and plans its queue."""

from __future__ import annotations
