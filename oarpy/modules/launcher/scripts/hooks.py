"""The site's programs around every job: prologue and epilogue, on the server and on the job's nodes.

Each script runs once for an attempt at a job, whichever process is killed meanwhile: the server keeps a row of each
run, and a node that is asked again gives the same answer as before.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from oarpy.configuration import JobSettings
from oarpy.model.states import JobState
from oarpy.modules.launcher.channels import Channels
from oarpy.modules.launcher.endings import UNABLE, end_of_unable
from oarpy.modules.launcher.parts import Hears, Part
from oarpy.modules.launcher.scripts.programs import Programs
from oarpy.store.database import Connection
from oarpy.store.jobs import server_scripts
from oarpy.store.jobs.execution import End, LiveRow
from oarpy.store.jobs.server_scripts import ScriptOutcome
from oarpy.store.platform.nodes import Fault
from oarpy.wire.jobs import JobKey, JobSpec
from oarpy.wire.messages import (
    EPILOGUE,
    FAILED,
    LOST,
    OK,
    PROLOGUE,
    SKIPPED,
    TIMEOUT,
    UNFIT,
    ChannelLost,
    Ready,
    Release,
    RunScript,
    ScriptEnded,
)

_LATE = 30.0
"""Seconds beyond its time limit for which an answer about an epilogue is waited for."""

PROLOGUE_ERROR, EPILOGUE_ERROR = "PROLOGUE_ERROR", "EPILOGUE_ERROR"
_JOBS_FAULT = frozenset({"NO_SUCH_USER", "FORGOTTEN", UNFIT})


@dataclass(slots=True)
class _Run:
    since: float
    asked: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)


class NodeScripts:
    """The runs of one kind of script. Forgetting all of this only asks the nodes again, and they answer the same."""

    def __init__(self, kind: str, program: str, timeout: float, *, after_prologue: bool = False) -> None:
        self.kind = kind
        self._program = program
        self._timeout = timeout
        self._after_prologue = after_prologue
        self._runs: dict[JobKey, _Run] = {}

    def __bool__(self) -> bool:
        return bool(self._program)

    def is_done(self, spec: JobSpec, nodes: Sequence[str], channels: Channels) -> bool:
        """Ask the nodes of a job, each once, to run the script; tell whether nothing is left to wait for.

        A prologue is waited for on all nodes; an epilogue only on nodes that answer, and only for a limited time.
        """
        run = self._runs.setdefault(spec.key, _Run(time.monotonic()))
        # A script of the site takes nothing from the user.
        bare = spec.replace(command="", script="", environment={}, variables={})
        command = RunScript(self.kind, self._program, self._timeout, (bare,), self._after_prologue)
        waiting = [node for node in nodes if node not in run.done]
        run.asked |= {node for node in waiting if node not in run.asked and channels.send(node, command)}
        if self.kind == EPILOGUE:
            waiting = [node for node in waiting if channels.is_connected(node) or channels.is_pending(node)]
            return not waiting or time.monotonic() - run.since > self._timeout + _LATE
        return not waiting

    def answered(self, node: str, report: ScriptEnded) -> None:
        """Take in a node's answer; a prologue that did not succeed ends its job."""
        run = self._runs.get(report.key)
        if run is not None and (self.kind == EPILOGUE or report.outcome == OK):
            run.done.add(node)

    def lose(self, node: str) -> None:
        """Repeat the orders on their way when the channel of a node was lost."""
        for run in self._runs.values():
            run.asked.discard(node)

    def forget(self, live: set[int]) -> None:
        """Drop jobs that are not live any more."""
        for key in [key for key in self._runs if key.job not in live]:
            del self._runs[key]


def end_of_prologue(node: str, report: ScriptEnded, now: float, *, again: bool) -> End | None:
    """Return the end of a job whose prologue did not succeed."""
    if report.kind != PROLOGUE or report.outcome in (OK, SKIPPED):
        return None
    if report.outcome in UNABLE:
        detail = f"node {node}: {report.detail or report.outcome}"
        return end_of_unable(report.key.job, detail, now, again=again)
    event = report.outcome
    if report.outcome in (FAILED, TIMEOUT):
        event = PROLOGUE_ERROR
    elif report.outcome == LOST:
        event = "JOB_LOST"
    message = f"not started: node {node}: {report.detail or report.outcome}"
    return End(report.key.job, JobState.ERROR, None, None, now, event, message[:500])


def fault_of_script(node: str, report: ScriptEnded) -> Fault | None:
    """Return the fault of the node in an answer.

    An epilogue that did not come to its end may leave processes or files.
    """
    if report.outcome in (OK, SKIPPED) or report.outcome in _JOBS_FAULT:
        return None
    text = (report.detail or report.outcome)[:500]
    if report.kind == EPILOGUE:
        return Fault(node, EPILOGUE_ERROR, report.key.job, text)
    if report.outcome in UNABLE:
        return Fault(node, report.outcome, report.key.job, text, heals=True)
    return None if report.outcome == LOST else Fault(node, PROLOGUE_ERROR, report.key.job, text)


_CUT_OFF = "was cut off: the launcher that ran it was killed"

Attempt = tuple[int, int]
"""A job and which attempt at it."""

EVENTS = {FAILED: "EXIT_CODE_ERROR", TIMEOUT: "TIMEOUT", LOST: "LOST"}
"""How a script can fail, and how the type of its event ends."""


class ServerScripts:
    """The runs of one kind of script. A row is written before each start, so that an interrupted run is known."""

    def __init__(self, kind: str, program: str, timeout: float) -> None:
        self.kind = kind
        self._programs: Programs[Attempt] = Programs(program, timeout)
        self._ended: dict[Attempt, ScriptOutcome] = {}
        self._unrecorded: list[ScriptOutcome] = []

    def __bool__(self) -> bool:
        return bool(self._programs.program)

    def files(self) -> list[int]:
        """Return descriptors that are readable when a script has ended."""
        return self._programs.files()

    @property
    def next_deadline(self) -> float | None:
        """When (monotonic seconds) the time of a running script is over."""
        return self._programs.next_deadline

    def advance(self, connection: Connection, attempts: Sequence[Attempt]) -> dict[Attempt, ScriptOutcome]:
        """Start the scripts of these (job, attempt) as there is room; return the scripts that have ended."""
        self._collect(connection)
        running = self._programs.running
        unknown = [attempt for attempt in attempts if attempt not in running and attempt not in self._ended]
        room = unknown[: self._programs.room]
        if room:
            with connection.transaction():
                begun = server_scripts.begin(connection, self.kind, room)
                earlier = server_scripts.find(
                    connection, self.kind, [attempt for attempt in room if attempt not in begun]
                )
                # Begun by a launcher that is gone: whether it came to its end is unknown.
                lost = [self._outcome((run.job, run.attempt), LOST, _CUT_OFF) for run in earlier if not run.outcome]
                server_scripts.end(connection, lost)
            known = [run for run in earlier if run.outcome] + lost
            self._ended |= {(run.job, run.attempt): run for run in known}
            for attempt in sorted(begun):
                self._programs.start(attempt, attempt[0])
        return {attempt: self._ended[attempt] for attempt in attempts if attempt in self._ended}

    def is_running(self, job: int) -> bool:
        """Tell whether a script of a job runs."""
        return any(running_job == job for running_job, _ in self._programs.running)

    def forget(self, live: set[int]) -> None:
        """Drop jobs that are not live any more."""
        for attempt in [attempt for attempt in self._ended if attempt[0] not in live]:
            del self._ended[attempt]

    def close(self) -> None:
        """Let running scripts go: each has a limit of its own."""
        self._programs.close()

    def _collect(self, connection: Connection) -> None:
        """Record the scripts that have ended, and the scripts whose time is over."""
        ended = self._programs.collect().items()
        self._unrecorded += [self._outcome(attempt, end.outcome, end.detail) for attempt, end in ended]
        if self._unrecorded:
            with connection.transaction():
                server_scripts.end(connection, self._unrecorded)
            self._ended |= {(run.job, run.attempt): run for run in self._unrecorded}
            self._unrecorded = []

    def _outcome(self, attempt: Attempt, outcome: str, detail: str) -> ScriptOutcome:
        """Return the record of an end. An epilogue gets an event.

        A prologue that fails ends its job, which has the message.
        """
        event = "" if outcome == OK or self.kind == PROLOGUE else f"SERVER_EPILOGUE_{EVENTS[outcome]}"
        return ScriptOutcome(*attempt, self.kind, outcome, f"server {self.kind} {detail}" if detail else "", event)


class Hooks(Part):
    """The site's programs around jobs. False where nothing is configured: then none of it is called for any job."""

    def __init__(self, settings: JobSettings) -> None:
        self.server_prologue = ServerScripts(PROLOGUE, settings.server_prologue, settings.server_script_timeout)
        self.server_epilogue = ServerScripts(EPILOGUE, settings.server_epilogue, settings.server_script_timeout)
        self._prologue = NodeScripts(PROLOGUE, settings.prologue, settings.script_timeout)
        self._epilogue = NodeScripts(
            EPILOGUE, settings.epilogue, settings.script_timeout, after_prologue=bool(settings.prologue)
        )
        self._configured = any((self.server_prologue, self.server_epilogue, self._prologue, self._epilogue))

    def __bool__(self) -> bool:
        return self._configured

    def files(self) -> list[int]:
        """Return descriptors that are readable when a script on the server has ended."""
        return [*self.server_prologue.files(), *self.server_epilogue.files()]

    def looks(self) -> bool:
        """Tell whether some jobs may be waiting for a script, so that the live jobs are needed."""
        return self._configured

    def wait(self) -> float:
        """Return the seconds after which the time of a script on the server is over."""
        deadlines = [self.server_prologue.next_deadline, self.server_epilogue.next_deadline]
        return min((max(0.0, at - time.monotonic()) for at in deadlines if at is not None), default=math.inf)

    def pass_server(
        self, connection: Connection, attempts: Sequence[tuple[int, int]], now: float
    ) -> tuple[set[int], list[End]]:
        """Run the server's prologue of these (job, attempt); return the jobs that it let pass, and ends of others."""
        if not self.server_prologue:
            return {job for job, _ in attempts}, []
        ended = self.server_prologue.advance(connection, attempts)
        failed = [
            End(run.job, JobState.ERROR, None, None, now, f"SERVER_PROLOGUE_{EVENTS[run.outcome]}", run.detail[:500])
            for run in ended.values()
            if run.outcome != OK
        ]
        return {job for (job, _), run in ended.items() if run.outcome == OK}, failed

    def prepared(self, jobs: Sequence[tuple[JobSpec, Sequence[str]]], channels: Channels) -> list[JobSpec]:
        """Run the prologue of jobs on their nodes; return the jobs that are ready to be started."""
        if not self._prologue:
            return [spec for spec, _ in jobs]
        return [spec for spec, hosts in jobs if self._prologue.is_done(spec, hosts, channels)]

    def concluded(
        self,
        connection: Connection,
        rows: Sequence[LiveRow],
        specs: Mapping[int, JobSpec],
        channels: Channels,
    ) -> list[int]:
        """Run the epilogues of jobs whose nodes are clean; return the jobs whose epilogues are finished."""
        if self._epilogue:
            rows = [row for row in rows if self._is_concluded_on_nodes(row, specs.get(row.id), channels)]
        if not self.server_epilogue:
            return [row.id for row in rows]
        attempts = [(row.id, row.attempt) for row in rows if not self.server_prologue.is_running(row.id)]
        if self.server_prologue:
            begun = {(run.job, run.attempt) for run in server_scripts.find(connection, PROLOGUE, attempts)}
        else:
            begun = {(row.id, row.attempt) for row in rows if row.ends_at is not None}
        over = [job for job, attempt in attempts if (job, attempt) not in begun]
        ended = self.server_epilogue.advance(connection, [attempt for attempt in attempts if attempt in begun])
        return over + [job for job, _ in ended]

    def _is_concluded_on_nodes(self, row: LiveRow, spec: JobSpec | None, channels: Channels) -> bool:
        ran = bool(self._prologue) or row.ends_at is not None
        return spec is None or not ran or self._epilogue.is_done(spec, row.nodes, channels)

    def release(self, connection: Connection, jobs: Sequence[int]) -> None:
        """Drop the rows of the jobs' scripts on the server, within the transaction that closes the jobs."""
        if self:
            server_scripts.forget(connection, jobs)

    def let_nodes_forget(self, rows: Iterable[LiveRow], channels: Channels) -> None:
        """Let the nodes of these jobs drop their records, after that transaction."""
        if self._prologue or self._epilogue:
            for row in rows:
                for node in row.nodes:
                    channels.send(node, Release((JobKey(row.id, row.attempt),)))

    def hears(self) -> Hears:
        """Return the method for each report that is taken here."""
        return {ScriptEnded: self._answered, Ready: self._lose, ChannelLost: self._lose}

    def _answered(self, node: str, report: ScriptEnded) -> None:
        """Take in how a script ended on a node."""
        (self._prologue if report.kind == PROLOGUE else self._epilogue).answered(node, report)

    def _lose(self, node: str, _report: Ready | ChannelLost) -> None:
        """Repeat the orders that a node may have missed: its channel was lost, or is new."""
        for scripts in (self._prologue, self._epilogue):
            scripts.lose(node)

    def forget(self, live: set[int]) -> None:
        """Drop the runs of jobs that are not live any more."""
        for scripts in (self.server_prologue, self.server_epilogue, self._prologue, self._epilogue):
            scripts.forget(live)

    def close(self) -> None:
        """Let running scripts on the server go."""
        self.server_prologue.close()
        self.server_epilogue.close()
