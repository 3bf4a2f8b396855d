"""Applications as a part of the state of the cluster: those in line, and the writing of decisions about them.

Decisions are their moves, views and estimates, and the hosts kept back for them. The negotiator sends them to the
launchers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from math import inf

from oarpy.cluster_state.state_part import StatePart
from oarpy.configuration import Configuration
from oarpy.model.reasons import local_instant, sentence
from oarpy.model.states import FINAL_STATES, NegotiationState
from oarpy.modules.metascheduler.written_predictions import multirange
from oarpy.negotiation.core.cluster_pass import Negotiation, negotiated_by, negotiation_of
from oarpy.negotiation.core.clusters import QUOTAS
from oarpy.negotiation.core.events import EstimatedStart, GivenHosts, StateMove, ViewChange
from oarpy.negotiation.core.line import Line, NegotiatingJob
from oarpy.negotiation.passes.application_line import ApplicationLine
from oarpy.negotiation.store import applications as rows_of_applications
from oarpy.negotiation.store import ghosts
from oarpy.negotiation.store.applications import ApplicationRow
from oarpy.scheduler.decide import Decisions
from oarpy.scheduler.plan import Placement
from oarpy.scheduler.snapshot import Snapshot
from oarpy.store import notifications
from oarpy.store.database import Connection

_SOONEST = 0.05
"""Seconds until the next pass for applications when it is overdue."""


class Applications(StatePart):
    """The applications of the cluster.

    A pass before the timer waits for it when only applications have changed.
    """

    THERE = rows_of_applications.ANY_THERE

    def __init__(self, configuration: Configuration) -> None:
        self._settings = configuration.negotiation
        self._line = ApplicationLine(configuration.negotiation)
        self._seen: Snapshot | None = None
        self._due = inf

    @property
    def ranks(self) -> Mapping[int, float]:
        """By job, the instant of its first request, or of its subscription."""
        return self._line.ranks

    @property
    def unasked(self) -> frozenset[int]:
        """The jobs that have sent no request yet."""
        return self._line.unasked

    def read(self, connection: Connection, *, any_there: bool) -> None:
        """Read the applications that are not over."""
        self._line.read(connection, any_there=any_there)

    def step(self, connection: Connection, snapshot: Snapshot) -> Negotiation | None:
        """Return the applications in line; None if there are none."""
        return self._line.negotiation(connection, snapshot)

    def not_before(self, snapshot: Snapshot) -> float | None:
        """Return the instant of the timer if no other job needs a pass before."""
        line = negotiation_of(snapshot)
        if line is None or line.telling or self._seen is None:
            return None
        if self._due <= time.time() or self._without_applications(snapshot) != self._seen:
            return None
        return min(self._due, time.time() + self._until_timer())

    def write(self, connection: Connection, decided: Decisions, snapshot: Snapshot, gone: Collection[int]) -> None:
        """Write the moves of applications, their views and estimates.

        A pass for batch jobs alone leaves them unchanged.
        """
        line = negotiation_of(snapshot)
        if not (self._line.rows or self._line.kept) or (line is not None and not line.telling):
            return
        rows = {row.job: row for row in self._line.rows}
        ended = [row.job for row in rows.values() if row.job_state in FINAL_STATES]
        rows_of_applications.finish(connection, ended)
        kept = negotiated_by(decided).ghosts
        if kept or self._line.kept:
            ghosts.keep(
                connection,
                [
                    (
                        ghost.of,
                        ghost.made,
                        max(ghost.made, ghost.latest_end),
                        multirange(snapshot.platform.ids_of(ghost.bits)),
                        list(ghost.viewers),
                        list(ghost.viewers.values()),
                    )
                    for ghost in kept
                ],
            )
        self._line.unowed = any(not ghost.viewers for ghost in kept) and line is not None
        kept_of = {ghost.of for ghost in kept}
        rows_of_applications.finished(connection, [job for job in ended if job not in kept_of])
        events = negotiated_by(decided).events
        moves = [event for event in events if isinstance(event, StateMove)]
        placed = [event.application for event in moves if event.state is NegotiationState.WAITING]
        begun = [event.application for event in moves if event.state is NegotiationState.STARTED]
        if placed:
            rows_of_applications.place(connection, {job: rows[job].requests for job in placed})
        if begun:
            rows_of_applications.start(connection, [job for job in begun if job in gone])
        if line is not None:
            _show(connection, self._line, line, decided, snapshot.now)
        if ended or events:
            notifications.tell(connection, "negotiator")

    def committed(self, decided: Decisions, snapshot: Snapshot) -> None:
        """Note that the decisions of a pass are committed."""
        line = negotiation_of(snapshot)
        if line is None:
            self._line.note_nobody()
        elif line.telling:
            self._line.note_told(decided.plan)

    def next_pass(self, decided: Decisions, snapshot: Snapshot, now: float) -> float | None:
        """Return the instant of the timer after a pass for batch jobs alone, or with hosts kept back needlessly."""
        line = negotiation_of(snapshot)
        if line is None or (line.telling and not self._line.unowed):
            return None
        return time.time() + self._until_timer()

    def noted(self, snapshot: Snapshot, due: float | None) -> None:
        """Note the snapshot without applications, and when the next pass is due at the latest (epoch seconds)."""
        self._seen = None if negotiation_of(snapshot) is None else self._without_applications(snapshot)
        self._due = inf if due is None else due

    def forget(self) -> None:
        """Forget the last snapshot, as it was not dealt with."""
        self._seen = None

    def _until_timer(self) -> float:
        return max(_SOONEST, self._settings.timer - (time.monotonic() - self._line.told_at))

    def _without_applications(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot without applications and without its instant."""
        jobs = {row.job for row in self._line.rows}
        waiting = tuple(job for job in snapshot.waiting if job.id not in jobs)
        return replace(snapshot, now=0, waiting=waiting, step=None)


def _show(connection: Connection, line: ApplicationLine, pass_line: Line, decided: Decisions, now: float) -> None:
    """Write views and estimates; a view is also sent when only facts about clusters have changed."""
    rows, events, placements = {row.job: row for row in line.rows}, negotiated_by(decided).events, decided.plan.by_job()
    changes = {event.application: event for event in events if isinstance(event, ViewChange)}
    started = {event.application for event in events if isinstance(event, GivenHosts)}
    views = []
    for application in pass_line.line:
        change, row = changes.get(application.id), rows[application.id]
        serial = row.serial + 1 if change is None else change.serial
        informed = None if application.id in started else line.informed(application, row, serial)
        if change is not None or informed is not None:
            profiles, groups = _view(application, row, change, now)
            text = None if informed is None else json.dumps(informed)
            views.append((application.id, serial, json.dumps(profiles), json.dumps(groups), text))
    rows_of_applications.show(connection, views)
    estimates = [event for event in events if isinstance(event, EstimatedStart)]
    rows_of_applications.estimate(
        connection,
        [
            (estimate.application, json.dumps(_estimate(estimate, placements[estimate.application])))
            for estimate in estimates
        ],
    )


def _view(
    job: NegotiatingJob, row: ApplicationRow, change: ViewChange | None, now: float
) -> tuple[dict[str, object], dict[str, object]]:
    """Return the stored profiles and groups by cluster, each with its number, for the clusters shown."""
    names = (*job.clusters, QUOTAS)
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
