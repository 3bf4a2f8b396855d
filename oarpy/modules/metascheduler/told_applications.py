"""What a pass writes of applications: their moves, views and estimates. The negotiator tells their launchers."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from math import inf

from oarpy.configuration import NegotiationSettings
from oarpy.model.states import FINAL_STATES, JobState, NegotiationState
from oarpy.modules.metascheduler.snapshot_reader import Reading
from oarpy.scheduler.decide import Decisions
from oarpy.scheduler.negotiation.events import EstimatedStart, StateMove, ViewChange
from oarpy.scheduler.plan import Placement
from oarpy.store import notifications
from oarpy.store.database import Connection
from oarpy.store.negotiation import applications
from oarpy.store.negotiation.applications import ApplicationRow

_SOONEST = 0.05
"""Seconds until applications are dealt with again when that is overdue."""


class ToldApplications:
    """Writes what happened to applications. They are shown views at most once per timer."""

    def __init__(self, settings: NegotiationSettings) -> None:
        self._timer = settings.timer
        self._shown_at = -inf

    def owed(self, reading: Reading) -> float | None:
        """Return in how many seconds applications are to be dealt with again that this pass told nothing."""
        if reading.snapshot.negotiation is None or self._due():
            return None
        return max(_SOONEST, self._timer - (time.monotonic() - self._shown_at))

    def _due(self) -> bool:
        return time.monotonic() - self._shown_at >= self._timer

    def write(self, connection: Connection, reading: Reading, decided: Decisions, gone: set[int]) -> None:
        """Write the moves of applications, their views and estimates; ``gone`` are the jobs that start."""
        rows = {row.job: row for row in reading.applications}
        ended = [(row.job, _reason(row)) for row in rows.values() if row.job_state in FINAL_STATES]
        applications.finish(connection, ended)
        moves = [event for event in decided.negotiated if isinstance(event, StateMove)]
        placed = [event.application for event in moves if event.state is NegotiationState.WAITING]
        begun = [
            event.application
            for event in moves
            if event.state is NegotiationState.STARTED and event.application in gone
        ]
        if placed:
            applications.place(connection, placed)
        if begun:
            applications.start(connection, begun)
        if self._due():
            self._shown_at = time.monotonic()
            self._show(connection, decided, rows, reading.snapshot.now)
        if ended or decided.negotiated:
            notifications.tell(connection, "negotiator")

    def _show(self, connection: Connection, decided: Decisions, rows: Mapping[int, ApplicationRow], now: float) -> None:
        views = []
        told = []
        placements = decided.plan.by_job() if decided.negotiated else {}
        for event in decided.negotiated:
            if isinstance(event, ViewChange):
                kept = dict(rows[event.application].view)
                for name, profile in event.changes.items():
                    kept[name] = (event.serial, profile.flat(now))  # type: ignore[assignment]
                views.append((event.application, json.dumps(kept), event.serial))
            elif isinstance(event, EstimatedStart):
                told.append((event.application, json.dumps(_estimate(event, placements[event.application]))))
        applications.show(connection, views)
        applications.estimate(connection, told)


def _estimate(event: EstimatedStart, placement: Placement) -> dict[str, object]:
    start = None if event.start == inf else event.start
    return {"tag": event.tag, "start": start, "verdict": str(placement.verdict), "reason": placement.reason}


def _reason(row: ApplicationRow) -> str:
    """Say how an application ended whose job is over."""
    if row.job_state == JobState.TERMINATED:
        return "done"
    if row.killed_for is None:
        return "walltime" if "walltime" in row.message.lower() else "error"
    return "walltime" if row.killed_for == "walltime" else "deleted"
