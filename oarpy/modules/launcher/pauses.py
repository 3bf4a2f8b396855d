"""Stopping the processes of jobs on all their nodes, and letting them go on.

A job is Suspended, and others get its resources, once every one of its nodes has said that it stands still there; it is
Running again once every one has said that it goes on. What nodes said is remembered here alone: forgotten, they are
told again, which changes nothing for them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from oarpy.model.states import JobState
from oarpy.modules.launcher.channels import Channels
from oarpy.modules.launcher.places import Places
from oarpy.store import suspensions
from oarpy.store.database import Connection
from oarpy.store.suspensions import PauseRow
from oarpy.transport.jobspec import JobKey
from oarpy.transport.messages import Report, Resume, Resumed, Suspend, Suspended

_REPEAT = 10.0
_HERE = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.RESUMING})

Place = tuple[JobKey, str]
"""A job on a node."""
Order = type[Suspend] | type[Resume]


@dataclass(slots=True)
class Pauses:
    """What was said to nodes, when, and whether they have answered; ``types`` of resources are given to others."""

    places: Places
    types: Sequence[str]
    said: dict[Place, tuple[Order, float]] = field(default_factory=dict)
    obeyed: dict[Place, Order] = field(default_factory=dict)

    def hear(self, answers: Iterable[tuple[str, Report]]) -> None:
        """Take in what nodes answered; what nobody asked them does not count."""
        for node, report in answers:
            if not isinstance(report, Suspended | Resumed):
                continue
            order: Order = Suspend if isinstance(report, Suspended) else Resume
            said, _ = self.said.get((report.key, node), (None, 0.0))
            if said is order:
                self.obeyed[report.key, node] = order

    def lost(self, node: str) -> None:
        """Say everything again to a node whose channel was lost."""
        self.said = {place: said for place, said in self.said.items() if place[1] != node}
        self.obeyed = {place: order for place, order in self.obeyed.items() if place[1] != node}

    def tend(self, connection: Connection, channels: Channels) -> None:
        """Tell nodes what is to be done, and record what they have done."""
        rows = suspensions.pauses(connection, self.types)
        if not rows:
            self.said.clear()
            self.obeyed.clear()
            return
        here = [row for row in rows if row.state in _HERE]
        done = [row for row in here if self._is_done(row, channels)]
        stopped = [row for row in done if _wanted(row) is Suspend]
        # What was started on a node while the others were told is stopped by telling them once more.
        fresh = {JobKey(row.job, row.attempt) for row in stopped if row.state == JobState.RUNNING}
        suspended = [row.job for row in stopped if row.state == JobState.RUNNING or row.owed]
        going = [row.job for row in done if _wanted(row) is Resume]
        if suspended or going or len(here) < len(rows):
            with connection.transaction():
                suspensions.suspend(connection, suspended, self.types)
                suspensions.resume(connection, going)
                suspensions.forget(connection)
        live = {JobKey(row.job, row.attempt) for row in here} - fresh
        self.said = {place: said for place, said in self.said.items() if place[0] in live}
        self.obeyed = {place: order for place, order in self.obeyed.items() if place[0] in live}

    def _is_done(self, row: PauseRow, channels: Channels) -> bool:
        """Tell the nodes of a job what they do not know; return whether all have obeyed."""
        key, wanted, moment = JobKey(row.job, row.attempt), _wanted(row), time.monotonic()
        done = True
        for node in self.places.of(row.types, row.nodes):
            if self.obeyed.get((key, node)) is wanted:
                continue
            done = False
            order, last = self.said.get((key, node), (None, 0.0))
            if (order is not wanted or moment - last >= _REPEAT) and channels.send(node, wanted((key,))):
                self.said[key, node] = wanted, moment
                self.obeyed.pop((key, node), None)
        return done


def _wanted(row: PauseRow) -> Order:
    """A job goes on when it is to and nobody else has its resources."""
    return Resume if row.state == JobState.RESUMING and not row.away else Suspend
