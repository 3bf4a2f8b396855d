"""Recording the reports of nodes, in one transaction, and letting nodes forget recorded jobs.

::

    reports --> sorted --> those of jobs that a node may speak for --> nodes at fault are suspected --> ends, starts
        --> committed --> nodes may forget

Reports are kept until they are committed: the database may go away in between, and nodes do not repeat themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

import structlog

from oarpy.configuration import JobSettings
from oarpy.model.job_types import read_types
from oarpy.model.states import JobState
from oarpy.modules.launcher.channels import Channels
from oarpy.modules.launcher.endings import (
    STUCK,
    end_of,
    end_of_refusal,
    end_of_unable,
    faults_of,
    leaves_nothing,
    lost,
    out_of_memory,
    resubmit,
)
from oarpy.modules.launcher.parts import Hears, Part, Round
from oarpy.modules.launcher.restored_database import RestoredDatabase
from oarpy.modules.launcher.running.orders import Signalling
from oarpy.modules.launcher.scripts.hooks import Hooks, end_of_prologue, fault_of_script
from oarpy.modules.launcher.starting import SentStarts
from oarpy.modules.launcher.strikes import FailedStart, Strikes, failed_start
from oarpy.store.analytics import measured_use
from oarpy.store.database import Connection
from oarpy.store.jobs import execution
from oarpy.store.jobs.execution import End, LiveRow
from oarpy.store.platform import nodes
from oarpy.store.refusals import refusals_of
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import (
    CLAIMED,
    AgentError,
    ChannelLost,
    Checked,
    Checkpointed,
    Clean,
    Cleaned,
    Ended,
    Kill,
    Ready,
    Recalled,
    Refused,
    Report,
    ScriptEnded,
    Started,
    Stuck,
)

log = structlog.get_logger()

CONNECTED = "connected"
LOST = "lost"
RECORDED: tuple[type[Report], ...] = (
    Ready,
    ChannelLost,
    Started,
    Ended,
    Refused,
    Checkpointed,
    ScriptEnded,
    Cleaned,
    Stuck,
    Checked,
    Recalled,
    AgentError,
)


@dataclass(slots=True)
class Arrivals:
    """Reports by their subject, each with the node it came from."""

    channels: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """Node to (connected or lost, message, boot id): the latest word counts."""
    ready: dict[str, Ready] = field(default_factory=dict)
    started: dict[JobKey, tuple[str, float]] = field(default_factory=dict)
    ended: dict[JobKey, tuple[str, Ended]] = field(default_factory=dict)
    refused: dict[JobKey, tuple[str, Refused]] = field(default_factory=dict)
    cleaned: list[tuple[str, Cleaned]] = field(default_factory=list)
    stuck: list[tuple[str, Stuck]] = field(default_factory=list)
    checked: dict[str, str] = field(default_factory=dict)
    """Node to the fault that keeps it from starting jobs."""
    checkpoints: dict[JobKey, tuple[str, float]] = field(default_factory=dict)
    scripts: list[tuple[str, ScriptEnded]] = field(default_factory=list)
    recalled: dict[str, Recalled] = field(default_factory=dict)
    """Node to the jobs that ran there, for a database that was restored."""
    complaints: list[tuple[str, str]] = field(default_factory=list)

    def only(self, heard: Callable[[JobKey, str], bool]) -> Arrivals:
        """Return these without the reports on jobs about which a node is not ``heard``, as if it had not sent them."""
        return replace(
            self,
            started={key: sent for key, sent in self.started.items() if heard(key, sent[0])},
            ended={key: sent for key, sent in self.ended.items() if heard(key, sent[0])},
            refused={key: sent for key, sent in self.refused.items() if heard(key, sent[0])},
            checkpoints={key: sent for key, sent in self.checkpoints.items() if heard(key, sent[0])},
            ready={
                node: ready.replace(jobs=tuple(job for job in ready.jobs if heard(job.key, node)))
                for node, ready in self.ready.items()
            },
        )

    def __bool__(self) -> bool:
        return any(getattr(self, item.name) for item in fields(self))


def sort(reports: Iterable[tuple[str, Report]], sent: Mapping[JobKey, str] = MappingProxyType({})) -> Arrivals:
    """Return the reports of all nodes that are to be recorded; the order between nodes does not matter.

    For a job that was sent to a node (``sent``), reports of other nodes are ignored.
    """
    arrivals = Arrivals()
    all_of: dict[type[Report], list[Any]] = {
        ScriptEnded: arrivals.scripts,
        Cleaned: arrivals.cleaned,
        Stuck: arrivals.stuck,
    }
    for node, report in reports:
        if isinstance(report, (Started, Ended, Refused)) and sent.get(report.key, node) != node:
            continue
        match report:
            case Ready() | ChannelLost():
                _note_channel(arrivals, node, report)
            case Started():
                arrivals.started[report.key] = (node, report.start)
            case Ended():
                arrivals.ended[report.key] = (node, report)
            case Refused():
                arrivals.refused[report.key] = (node, report)
            case Checkpointed():
                arrivals.checkpoints[report.key] = (node, report.at)
            case ScriptEnded() | Cleaned() | Stuck():
                all_of[type(report)].append((node, report))
            case Checked() | Recalled():
                _note_answer(arrivals, node, report)
            case AgentError():
                arrivals.complaints.append((node, report.detail[:500]))
    return arrivals


def _note_channel(arrivals: Arrivals, node: str, report: Ready | ChannelLost) -> None:
    if isinstance(report, Ready):
        arrivals.channels[node] = (CONNECTED, "", report.boot_id)
        arrivals.ready[node] = report
    else:
        arrivals.channels[node] = (LOST, report.reason[:500], "")
        arrivals.ready.pop(node, None)


def _note_answer(arrivals: Arrivals, node: str, report: Checked | Recalled) -> None:
    if isinstance(report, Checked):
        arrivals.checked[node] = report.problem
    else:
        arrivals.recalled[node] = report


Current = Mapping[int, LiveRow]
"""The live jobs which reports may be about, by id."""


class Recording(Part):
    """Reports that are not recorded yet, each with the node it came from."""

    def __init__(
        self,
        settings: JobSettings,
        strikes: Strikes,
        sent: SentStarts,
        recalling: RestoredDatabase,
        hooks: Hooks,
        signalling: Signalling,
    ) -> None:
        self._settings = settings
        self._strikes = strikes
        self._sent = sent
        self._recalling = recalling
        self._hooks = hooks
        self._signalling = signalling
        self._unrecorded: list[tuple[str, Report]] = []

    def hears(self) -> Hears:
        """Return the reports that are to be written."""
        return dict.fromkeys(RECORDED, self._note)

    def _note(self, node: str, report: Report) -> None:
        self._unrecorded.append((node, report))

    def record(self, turn: Round) -> None:
        """Write the reports that arrived; reports that the database withholds are written later."""
        arrivals = sort(self._unrecorded, self._sent.nodes)
        if arrivals:
            turn.ended += self._record(turn, arrivals)
        self._unrecorded = _about(self._unrecorded, refusals_of(turn.connection).withheld())

    def _record(self, turn: Round, arrivals: Arrivals) -> list[int]:
        """Write the reports in one transaction; let nodes forget recorded jobs. Return the jobs that ended."""
        connection = turn.connection
        for node, detail in arrivals.complaints:
            log.warning("agent complains", node=node, detail=detail)
        with connection.transaction():
            left_behind = {node: nodes.left_behind(connection, node) for node in arrivals.ready}
            nodes.record_channels(connection, [(node, *state) for node, state in arrivals.channels.items()])
            current = {row.id: row for row in self._rows_of(connection, arrivals)}
            arrivals = arrivals.only(lambda key, node: _is_of(key, node, current))
            late_ends = self._recalling.remember(connection, arrivals.recalled, current)
            arrivals.ended.update({end.key: (node, end) for node, end in late_ends if end.key not in arrivals.ended})
            passed = [(key.job, at) for key, (_, at) in arrivals.checkpoints.items() if _is_current(key, current)]
            execution.signal_elsewhere(connection, passed)
            failed = self._strikes.record(connection, self._failed(arrivals, current), current, turn.now)
            _judge(connection, arrivals, failed.faults)
            ends = self._ends(arrivals, current, turn.now, failed.elsewhere)
            whole = [end for end in ends if leaves_nothing(end, current[end.job]) and not self._hooks]
            closed = execution.end(connection, whole)
            others = [end for end in ends if end.job not in closed]
            starts = {key.job: at for key, (_, at) in arrivals.started.items() if _is_current(key, current)}
            starts |= {end.job: end.started for end in others if end.started is not None}
            execution.started(connection, [start for start in starts.items() if start[0] not in closed])
            moved = execution.finish(connection, others)
            resubmit(connection, self._settings, closed, current.values())
            unknown = [sent for key, sent in arrivals.ended.items() if not _is_current(key, current)]
            self._recalling.note_ends(connection, unknown)
        self._recalling.told(arrivals.recalled)
        if withheld := refusals_of(connection).withheld():
            # no node may forget a job that is not recorded yet
            arrivals = arrivals.only(lambda key, _: key.job not in withheld)
        self._after_commit(turn.channels, arrivals, left_behind, current)
        return [*closed, *moved]

    def _rows_of(self, connection: Connection, arrivals: Arrivals) -> list[LiveRow]:
        """Return the live jobs which the reports may be about."""
        if arrivals.ready or arrivals.recalled:
            return self._sent.placed(execution.live(connection, everything=True))
        jobs = {key.job for key in (*arrivals.started, *arrivals.ended, *arrivals.refused)}
        jobs |= {report.key.job for _, report in arrivals.scripts} | {key.job for key in arrivals.checkpoints}
        return self._sent.placed(execution.live_among(connection, sorted(jobs))) if jobs else []

    def _failed(self, arrivals: Arrivals, current: Current) -> list[FailedStart]:
        """Return the starts that failed where others may succeed, of jobs that may be launched again."""
        reports: list[tuple[str, Report]] = [*arrivals.ended.values(), *arrivals.refused.values(), *arrivals.scripts]
        return [
            start
            for node, report in reports
            if (start := failed_start(node, report)) is not None
            and _is_to_start(start.key, current)
            and current[start.key.job].kill_reason is None
            and self._may_again(start.key)
        ]

    def _ends(self, arrivals: Arrivals, current: Current, now: float, elsewhere: Mapping[int, str]) -> list[End]:
        """Return the ends that nodes tell of, one a job: ended, refused, kept out by a prologue, or lost.

        A job is lost when its first node, which has just been reached again, knows nothing of it. Jobs that may start
        ``elsewhere`` (with the reason) wait again.
        """
        ends = {job: end_of_unable(job, why, now, again=True) for job, why in elsewhere.items()}
        for key, (_, ending) in arrivals.ended.items():
            if _is_current(key, current):
                ends.setdefault(key.job, end_of(ending, current[key.job].kill_reason))
        for key, (_, refusal) in arrivals.refused.items():
            if _is_current(key, current):
                ends.setdefault(key.job, end_of_refusal(refusal, now, again=self._may_again(key)))
        for node, report in arrivals.scripts:
            over = end_of_prologue(node, report, now, again=self._may_again(report.key))
            if over is not None and _is_to_start(report.key, current) and node in current[report.key.job].nodes:
                ends.setdefault(report.key.job, over)
        for node, known in self._recalling.known(arrivals.ready, arrivals.recalled).items():
            for row in current.values():
                key = JobKey(row.id, row.attempt)
                runs_there = row.state in ("Running", "Suspended", "Resuming") and row.nodes[:1] == (node,)
                if runs_there and key not in known and not read_types(row.types).runs_nothing:
                    ends.setdefault(row.id, lost(row.id, now))
        return list(ends.values())

    def _may_again(self, key: JobKey) -> bool:
        """Tell whether a job that a node could not begin may wait again."""
        return execution.tries(key.attempt) < self._settings.launch_limit

    def _after_commit(
        self,
        channels: Channels,
        arrivals: Arrivals,
        left_behind: Mapping[str, list[tuple[int, int]]],
        current: Current,
    ) -> None:
        """Let nodes forget recorded jobs, now and not before; end jobs there that are over in the database."""
        forget: dict[str, list[JobKey]] = {}
        for key, (node, _) in arrivals.ended.items():
            forget.setdefault(node, []).append(key)
        self._sent.over((*arrivals.ended, *arrivals.refused))
        self._signalling.over((*arrivals.ended, *arrivals.refused))
        for node, keys in forget.items():
            channels.forget(node, keys)
        for node in arrivals.channels:
            self._sent.lose(node)
        for node, dead in left_behind.items():
            if dead:
                channels.send(node, Clean(tuple(JobKey(*key) for key in dead)))
        for node, ready in arrivals.ready.items():
            stray = [
                job.key for job in ready.jobs if job.key not in arrivals.ended and not _is_current(job.key, current)
            ]
            if stray:
                # These are over in the database: their remaining processes are not wanted.
                channels.send(node, Kill(tuple(stray), 0))
            # A job that is only claimed was not started: its agent may have been killed before. It is sent again.
            known = [job.key for job in ready.jobs if job.state != CLAIMED and _is_current(job.key, current)]
            self._sent.known(known, node)


def _judge(connection: Connection, arrivals: Arrivals, counted: Sequence[nodes.Fault]) -> None:
    """Suspect nodes at fault before any of their resources is free again; take back nodes whose fault is over.

    ``counted`` are the faults of nodes where too many starts failed.
    """
    nodes.healed(connection, [node for node, problem in arrivals.checked.items() if not problem])
    reports: list[tuple[str, Ended | Refused | Cleaned]] = [
        *arrivals.ended.values(),
        *arrivals.refused.values(),
        *arrivals.cleaned,
    ]
    met = [
        (cleaned.key.job, node, out_of_memory(cleaned.memory_kills))
        for node, cleaned in arrivals.cleaned
        if cleaned.memory_kills
    ]
    measured_use.note_memory(connection, met)
    used = [(*cleaned.key, node, cleaned.cpu_seconds, cleaned.memory_peak) for node, cleaned in arrivals.cleaned]
    measured_use.add_usage(connection, [some for some in used if some[3:] != (None, None)])
    faults = [*counted, *(fault for node, report in reports for fault in faults_of(node, report))]
    faults += [
        nodes.Fault(node, STUCK, stuck.key.job, stuck.detail[:500], heals=True) for node, stuck in arrivals.stuck
    ]
    faults += [fault for node, report in arrivals.scripts if (fault := fault_of_script(node, report)) is not None]
    for node in nodes.blame(connection, faults):
        log.warning("node at fault", node=node, detail=next(fault.text for fault in faults if fault.node == node))


def _about(reports: Sequence[tuple[str, Report]], jobs: Container[int]) -> list[tuple[str, Report]]:
    """Return the reports about ``jobs``."""
    return [
        report for report in reports if isinstance(report[1], (Started, Ended, Refused)) and report[1].key.job in jobs
    ]


def _is_of(key: JobKey, node: str, current: Current) -> bool:
    """Tell whether ``node`` may report on a job: its first node may, and any node when the job is over."""
    row = current.get(key.job)
    return row is None or row.nodes[:1] == (node,)


def _is_current(key: JobKey, current: Current) -> bool:
    row = current.get(key.job)
    return row is not None and row.attempt == key.attempt


def _is_to_start(key: JobKey, current: Current) -> bool:
    """Tell whether a prologue belongs to a start. One on a node that joins a running job ends no job."""
    return _is_current(key, current) and current[key.job].state == JobState.LAUNCHING
