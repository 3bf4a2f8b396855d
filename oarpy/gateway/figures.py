"""The gateway's figures for monitoring: calls and workers, in a file beside its socket."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from oarpy.client.health.exposition import Family, exposition

_PERIOD = 10.0
"""Seconds between two writings."""


class Figures:
    """Counts calls; writes all figures every few seconds, whole or not at all."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._written = float("-inf")
        self.requests = 0
        self.refused = 0

    def tend(self, now: float, workers: int, busy: int, waiting: int) -> None:
        """Write the figures if that is due; a disk that takes no file changes nothing for callers."""
        if now - self._written < _PERIOD:
            return
        self._written = now
        families = [
            Family(f"oarpy_gateway_{name}", kind, meaning, (({}, value),))
            for name, kind, meaning, value in (
                ("calls_total", "counter", "Calls of commands that workers were given.", self.requests),
                ("refused_total", "counter", "Calls that were lost with their worker.", self.refused),
                ("workers", "gauge", "Processes that run commands.", workers),
                ("workers_busy", "gauge", "Of these, those that run one.", busy),
                ("connections_waiting", "gauge", "Connections of commands that no worker has yet.", waiting),
            )
        ]
        draft = self._path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            draft.write_text(exposition(families), encoding="utf-8")
            draft.chmod(0o644)
            draft.rename(self._path)

    def close(self) -> None:
        """Take the file away."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
