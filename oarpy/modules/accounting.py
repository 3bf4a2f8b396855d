"""Accounting: every job that has ended is added once to the consumption of its user, project and queue.

USED is the time a job ran, ASKED its walltime from the same start. Both are times the number of its resources of type
``default``, and cut exactly at the borders of aligned windows (in UTC). Jobs that never ran, or hold nothing, are
marked and add nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from oarpy.configuration import Configuration
from oarpy.model.errors import UsageError
from oarpy.modules.loop.module import Outcome
from oarpy.store import accounting
from oarpy.store.database import Connection

BATCH = 10_000
"""Jobs counted in one transaction, by default."""


def account(connection: Connection, window: int, limit: int = BATCH) -> int:
    """Count up to ``limit`` ended jobs in windows of ``window`` seconds, in one transaction; return how many.

    Killed at any moment, it has counted all of them or none. Several may run at once.
    """
    if window <= 0:
        raise UsageError(f"accounting window of {window} seconds", hint="modules.accounting_window is above 0")
    with connection.transaction():
        return accounting.account(connection, window, limit)


class Accounting:
    """The module: counts what has ended, batch by batch."""

    name = "accounting"

    def __init__(self, configuration: Configuration) -> None:
        self.period = configuration.modules.accounting
        self._window = configuration.modules.accounting_window

    def files(self) -> Sequence[int]:
        """Return nothing: notifications alone are a reason to run."""
        return ()

    def run_once(self, connection: Connection, now: datetime) -> Outcome:
        """Count one batch; again if it was full."""
        counted = account(connection, self._window)
        return Outcome(f"accounted {counted}", again=counted == BATCH) if counted else Outcome()
