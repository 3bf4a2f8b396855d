"""What a pass writes of applications: their moves, views and estimates, and the hosts that are kept back for them.

The negotiator tells their launchers.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from math import inf

from oarpy.cluster_state.snapshot_reader import Reading
from oarpy.configuration import NegotiationSettings
from oarpy.model.reasons import local_instant, sentence
from oarpy.model.states import FINAL_STATES, NegotiationState
from oarpy.modules.metascheduler.written_predictions import multirange
from oarpy.negotiation.core.cluster_pass import negotiated_by, negotiation_of
from oarpy.negotiation.core.clusters import QUOTAS
from oarpy.negotiation.core.events import EstimatedStart, GivenHosts, StateMove, ViewChange
from oarpy.negotiation.core.line import Line, NegotiatingJob
from oarpy.negotiation.passes.application_line import ApplicationLine
from oarpy.negotiation.store import applications, ghosts
from oarpy.negotiation.store.applications import ApplicationRow
from oarpy.scheduler.decide import Decisions
from oarpy.scheduler.plan import Placement
from oarpy.scheduler.snapshot import Snapshot
from oarpy.store import notifications
from oarpy.store.database import Connection

_SOONEST = 0.05
"""Seconds until applications are dealt with again when that is overdue."""


def owed(reading: Reading, settings: NegotiationSettings) -> float | None:
    """Return in how many seconds applications are to be dealt with again, None for no earlier than others want it.

    That is so when a pass told them nothing, or left hosts kept back for which nobody owes an answer.
    """
    asked, line = negotiation_of(reading.snapshot), reading.applications
    if asked is None or line is None:
        return None
    if asked.telling and not line.unowed:
        return None
    return _until_timer(line, settings)


def _until_timer(line: ApplicationLine, settings: NegotiationSettings) -> float:
    return max(_SOONEST, settings.timer - (time.monotonic() - line.told_at))


class EarlyPasses:
    """Passes before the timer: they wait for it when nothing has changed but what applications say."""

    def __init__(self, settings: NegotiationSettings) -> None:
        self._settings = settings
        self._seen: Snapshot | None = None
        self._due = inf

    def wait(self, reading: Reading) -> float | None:
        """Return when a pass over this reading is due (epoch seconds), None if that is now."""
        asked, line = negotiation_of(reading.snapshot), reading.applications
        if asked is None or line is None or asked.telling or self._seen is None:
            return None
        if self._due <= time.time() or _without_applications(reading) != self._seen:
            return None
        return min(self._due, time.time() + _until_timer(line, self._settings))

    def committed(self, reading: Reading, due: float | None) -> None:
        """Note what a pass saw, and when the next one is due at the latest (epoch seconds)."""
        self._seen = None if negotiation_of(reading.snapshot) is None else _without_applications(reading)
        self._due = inf if due is None else due

    def forget(self) -> None:
        """Forget what was seen: it was not dealt with."""
        self._seen = None


def _without_applications(reading: Reading) -> Snapshot:
    """Return what a pass saw besides applications, whenever that was."""
    line, snapshot = reading.applications, reading.snapshot
    jobs = {row.job for row in line.rows} if line is not None else set()
    waiting = tuple(job for job in snapshot.waiting if job.id not in jobs)
    return replace(snapshot, now=0, waiting=waiting, step=None)


def write(
    connection: Connection, line: ApplicationLine, decided: Decisions, snapshot: Snapshot, gone: set[int]
) -> None:
    """Write the moves of applications, their views and estimates; ``gone`` are the jobs that start.

    A pass for batch jobs alone leaves all of that as it is.
    """
    asked = negotiation_of(snapshot)
    if asked is not None and not asked.telling:
        return
    rows = {row.job: row for row in line.rows}
    ended = [row.job for row in rows.values() if row.job_state in FINAL_STATES]
    applications.finish(connection, ended)
    kept = negotiated_by(decided).ghosts
    if kept or line.kept:
        ghosts.keep(
            connection,
            [
                (
                    one.of,
                    one.made,
                    max(one.made, one.latest_end),
                    multirange(snapshot.platform.ids_of(one.bits)),
                    list(one.viewers),
                    list(one.viewers.values()),
                )
                for one in kept
            ],
        )
    line.unowed = any(not one.viewers for one in kept) and asked is not None
    kept_of = {one.of for one in kept}
    applications.finished(connection, [job for job in ended if job not in kept_of])
    events = negotiated_by(decided).events
    moves = [event for event in events if isinstance(event, StateMove)]
    placed = [event.application for event in moves if event.state is NegotiationState.WAITING]
    begun = [event.application for event in moves if event.state is NegotiationState.STARTED]
    if placed:
        applications.place(connection, {job: rows[job].requests for job in placed})
    if begun:
        applications.start(connection, [job for job in begun if job in gone])
    if asked is not None:
        _show(connection, line, asked, decided, snapshot.now)
    if ended or events:
        notifications.tell(connection, "negotiator")


def committed(line: ApplicationLine, decided: Decisions, snapshot: Snapshot) -> None:
    """Note what a pass has written for good."""
    asked = negotiation_of(snapshot)
    if asked is None:
        line.note_nobody()
    elif asked.telling:
        line.note_told(decided.plan)


def _show(connection: Connection, line: ApplicationLine, asked: Line, decided: Decisions, now: float) -> None:
    """Write views and estimates; a view is also told when nothing but facts about clusters has changed."""
    rows, events, placements = {row.job: row for row in line.rows}, negotiated_by(decided).events, decided.plan.by_job()
    changes = {event.application: event for event in events if isinstance(event, ViewChange)}
    started = {event.application for event in events if isinstance(event, GivenHosts)}
    views = []
    for one in asked.line:
        change, row = changes.get(one.id), rows[one.id]
        serial = row.serial + 1 if change is None else change.serial
        informed = None if one.id in started else line.informed(one, row, serial)
        if change is not None or informed is not None:
            profiles, groups = _view(one, row, change, now)
            told = None if informed is None else json.dumps(informed)
            views.append((one.id, serial, json.dumps(profiles), json.dumps(groups), told))
    applications.show(connection, views)
    estimates = [event for event in events if isinstance(event, EstimatedStart)]
    applications.estimate(
        connection, [(one.application, json.dumps(_estimate(one, placements[one.application]))) for one in estimates]
    )


def _view(
    one: NegotiatingJob, row: ApplicationRow, change: ViewChange | None, now: float
) -> tuple[dict[str, object], dict[str, object]]:
    """Return profiles and groups by cluster as they are kept, each with its number; of those that it is shown."""
    names = (*one.clusters, QUOTAS)
    profiles: dict[str, object] = {name: row.view[name] for name in names if name in row.view}
    groups: dict[str, object] = {name: row.groups[name] for name in names if name in row.groups}
    if change is not None:
        profiles |= {name: (change.serial, profile.flat(now)) for name, profile in change.changes.items()}
        groups |= {name: (change.serial, some.flat(now)) for name, some in change.groups.items()}
    return profiles, groups


def _estimate(event: EstimatedStart, placement: Placement) -> dict[str, object]:
    start = None if event.start == inf else event.start
    reason = sentence(placement.reason, local_instant)
    return {"tag": event.tag, "start": start, "verdict": str(placement.verdict), "reason": reason}
