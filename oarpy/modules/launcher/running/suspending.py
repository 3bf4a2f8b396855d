"""Stopping the processes of jobs on all their nodes, and letting them go on.

::

    Running:  Suspend to every node --> all have stopped --> after_suspend runs --> Suspended, others get its resources
    Resuming: it has its resources back --> before_resume runs --> Resume to every node --> all go on --> Running
                                                '- failed --> Suspended again

The answers of nodes are remembered here alone. Without them, the orders are repeated, which changes nothing on nodes.
``after_suspend`` and ``before_resume`` are programs of the site, run on the server.
"""

from __future__ import annotations

import time
from collections.abc import Set

from oarpy.configuration import Configuration
from oarpy.model.states import JobState
from oarpy.modules.launcher.channels import Channels
from oarpy.modules.launcher.parts import Hears, Part, Round
from oarpy.modules.launcher.scripts.programs import ProgramEnd, Programs
from oarpy.modules.launcher.specifications import JobHosts
from oarpy.store.database import Connection
from oarpy.store.jobs import suspensions
from oarpy.store.jobs.execution import Agenda
from oarpy.store.jobs.suspensions import PauseRow
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import OK, ChannelLost, Ready, Resume, Resumed, Suspend, Suspended

_NOTHING = ProgramEnd(OK, "")
_REPEAT = 10.0
_HERE = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.RESUMING})

Place = tuple[JobKey, str]
"""A job on a node."""
Order = type[Suspend] | type[Resume]


class Pauses(Part):
    """The orders to nodes, with their instants (monotonic seconds), and the nodes that have answered."""

    def __init__(self, settings: Configuration, hosts: JobHosts) -> None:
        self._hosts = hosts
        self._types = settings.scheduler.suspended_resource_types
        self._consumables = settings.scheduler.suspended_consumables
        limit = settings.jobs.server_script_timeout
        self._after_suspend = PauseScripts("after_suspend", settings.jobs.after_suspend, limit)
        self._before_resume = PauseScripts("before_resume", settings.jobs.before_resume, limit)
        self._said: dict[Place, tuple[Order, float]] = {}
        self._obeyed: dict[Place, Order] = {}

    @property
    def awaits(self) -> bool:
        """Tell whether messages to nodes, or programs, are under way."""
        return bool(self._said) or self._after_suspend.awaits or self._before_resume.awaits

    def files(self) -> list[int]:
        """Return descriptors that are readable when a program of the site has ended."""
        return [*self._after_suspend.files(), *self._before_resume.files()]

    def wait(self) -> float:
        """Return the seconds after which the time of such a program is over."""
        deadlines = [self._after_suspend.next_deadline, self._before_resume.next_deadline]
        return min((max(0.0, at - time.monotonic()) for at in deadlines if at is not None), default=float("inf"))

    def close(self) -> None:
        """Let go of the programs that run."""
        self._after_suspend.close()
        self._before_resume.close()

    def hears(self) -> Hears:
        """Return the method for each report that is taken here."""
        return {Suspended: self._answered, Resumed: self._answered, Ready: self._lose, ChannelLost: self._lose}

    def _answered(self, node: str, report: Suspended | Resumed) -> None:
        """Take in a node's answer; an answer to no order does not count."""
        order: Order = Suspend if isinstance(report, Suspended) else Resume
        order_sent, _ = self._said.get((report.key, node), (None, 0.0))
        if order_sent is order:
            self._obeyed[report.key, node] = order

    def _lose(self, node: str, _report: Ready | ChannelLost) -> None:
        """Forget the answers of a node whose channel was lost, so that every order is sent again."""
        self._said = {place: sent for place, sent in self._said.items() if place[1] != node}
        self._obeyed = {place: order for place, order in self._obeyed.items() if place[1] != node}

    def act(self, turn: Round, agenda: Agenda) -> None:
        """Bring on the jobs that are suspended, or are to be."""
        if agenda.pauses or self.awaits:
            self._tend(turn.connection, turn.channels)

    def _tend(self, connection: Connection, channels: Channels) -> None:
        """Send nodes their orders, and record the orders that they have carried out, in one transaction."""
        rows = suspensions.pauses(connection, self._types)
        here = [row for row in rows if row.state in _HERE]
        self._after_suspend.look({_key(row) for row in here if _wanted(row) is Suspend and _gives(row)})
        self._before_resume.look({_key(row) for row in here if _wanted(row) is Resume})
        done = [row for row in here if self._may_be_told(row) and self._is_done(row, channels)]
        stopped = [row for row in done if _wanted(row) is Suspend]
        away = [row for row in stopped if _gives(row) and self._after_suspend.result(_key(row)) is not None]
        going = [row.job for row in done if _wanted(row) is Resume]
        back = [
            (row.job, text)
            for row in here
            if _wanted(row) is Resume and (text := self._before_resume.failure(_key(row)))
        ]
        if away or going or back or len(here) < len(rows):
            failed = [(row.job, text) for row in away if (text := self._after_suspend.failure(_key(row)))]
            with connection.transaction():
                suspensions.suspend(connection, [row.job for row in away], self._types, self._consumables)
                suspensions.note_failures(connection, failed)
                suspensions.resume(connection, going)
                suspensions.stay(connection, back)
                suspensions.forget(connection)
        # A process that was started on a node while the others got their orders is stopped by another order.
        fresh = {_key(row) for row in away if row.state == JobState.RUNNING}
        live = {_key(row) for row in here} - fresh
        self._said = {place: sent for place, sent in self._said.items() if place[0] in live}
        self._obeyed = {place: order for place, order in self._obeyed.items() if place[0] in live}

    def _may_be_told(self, row: PauseRow) -> bool:
        """Nodes let a job go on after the site's program, if that says so."""
        if _wanted(row) is Suspend:
            return True
        end = self._before_resume.result(_key(row))
        return end is not None and end.outcome == OK

    def _is_done(self, row: PauseRow, channels: Channels) -> bool:
        """Send the nodes of a job the orders that they do not know; return whether all have obeyed."""
        key, wanted, moment = _key(row), _wanted(row), time.monotonic()
        done = True
        for node in self._hosts.of(row.types, row.nodes):
            if self._obeyed.get((key, node)) is wanted:
                continue
            done = False
            order, last = self._said.get((key, node), (None, 0.0))
            if (order is not wanted or moment - last >= _REPEAT) and channels.send(node, wanted((key,))):
                self._said[key, node] = wanted, moment
                self._obeyed.pop((key, node), None)
        return done


def _wanted(row: PauseRow) -> Order:
    """Return the wanted state of a job: it goes on when it is to and no other job has its resources."""
    return Resume if row.state == JobState.RESUMING and not row.away else Suspend


def _gives(row: PauseRow) -> bool:
    """Tell whether a stopped job will now free its resources for others."""
    return row.state == JobState.RUNNING or row.owed


def _key(row: PauseRow) -> JobKey:
    return JobKey(row.job, row.attempt)


class PauseScripts:
    """Runs of one of the two programs, known in memory only. If they are forgotten, the program is run again."""

    def __init__(self, name: str, program: str, timeout: float) -> None:
        self._name = name
        self._programs: Programs[JobKey] = Programs(program, timeout)
        self._ended: dict[JobKey, ProgramEnd] = {}

    @property
    def awaits(self) -> bool:
        """Whether a run of it has not been looked at since its end."""
        return bool(self._programs.running)

    def files(self) -> list[int]:
        """Return descriptors that are readable when a run has ended."""
        return self._programs.files()

    @property
    def next_deadline(self) -> float | None:
        """When (monotonic seconds) the time of a run is over."""
        return self._programs.next_deadline

    def look(self, wanted: Set[JobKey]) -> None:
        """See which runs have ended, and drop the ends of jobs that are not ``wanted`` any more."""
        self._ended |= self._programs.collect()
        self._ended = {key: end for key, end in self._ended.items() if key in wanted}

    def result(self, key: JobKey) -> ProgramEnd | None:
        """Return how its run for a job ended; None while it runs, or has to wait, and when it was begun now."""
        if not self._programs.program:
            return _NOTHING
        end = self._ended.get(key)
        if end is None and key not in self._programs.running and self._programs.room:
            self._programs.start(key, key.job)
        return end

    def failure(self, key: JobKey) -> str:
        """Return the message about a run that failed; empty when it did not, or is not over."""
        end = self.result(key)
        return "" if end is None or end.outcome == OK else f"{self._name} {end.detail}"

    def close(self) -> None:
        """Let running programs go: each has a limit of its own."""
        self._programs.close()
