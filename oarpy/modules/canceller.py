"""The canceller: turns kill requests into ends. Waiting jobs end here; for running jobs it decides for the launcher.

A best-effort job that has a checkpoint is asked to write it, and decided upon when its time for that is over. Parts of
brokers that were not committed in time are undone here; parts that were not let begin in time end. Jobs that measure
rates end with the last waiting job that needs these.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

from oarpy.configuration import Configuration
from oarpy.modules.loop.logging import job_ranges
from oarpy.modules.loop.module import Outcome
from oarpy.store.database import Connection
from oarpy.store.grid import door_parts, launch_gates
from oarpy.store.jobs import execution, kill_requests, rates


class Canceller:
    """Carries out ``kill_requests`` and buries jobs in toError."""

    name = "canceller"

    def __init__(self, configuration: Configuration) -> None:
        self.period = configuration.modules.canceller
        self._inner_too = configuration.jobs.kill_inner_jobs

    def files(self) -> Sequence[int]:
        """Return nothing: notifications alone are a reason to run."""
        return ()

    def run_once(self, connection: Connection, now: datetime) -> Outcome:
        """Handle every open request, in one transaction."""
        with connection.transaction():
            lapsed = len(door_parts.lapse(connection)) + launch_gates.lapse(connection)
            if self._inner_too:
                kill_requests.ask_inside(connection)
            moved = execution.cancel(connection, now)
            rates.end_needless(connection, rates.measured_for(connection, moved), self.name)
            lapse = door_parts.next_lapse(connection)
            lapse_at = None if lapse is None else time.time() + max(lapse, 0.0)
            dates = [execution.next_kill(connection), lapse_at, launch_gates.next_lapse(connection)]
        wake_at = min((date for date in dates if date is not None), default=None)
        word = f"cancelled {len(moved)}" if moved or lapsed else "nothing"
        return Outcome(word, wake_at=wake_at, named={"jobs": job_ranges(set(moved))})
