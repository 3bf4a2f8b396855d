"""The launcher as a module: one round records what the nodes reported, then tells them what to do next.

::

    reports --> each part hears its own --> ends and starts recorded, one transaction --> nodes may forget
    agenda --> Finishing: clean, epilogue, close --> toLaunch: claim, prologue, Start
           --> kills --> signals --> walltimes --> suspensions --> resizes --> reconnect what is due

Everything is written before it is acted upon. A job is Launching before its node hears of it; its end is recorded
before its node forgets it. So whatever is killed, the next round finds all it needs in the database and on the nodes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import structlog

from oarpy.configuration import Configuration
from oarpy.model.job_types import read_types
from oarpy.model.states import JobState
from oarpy.modules.launcher import reports as sorting
from oarpy.modules.launcher.call_requests import CallRequests
from oarpy.modules.launcher.channels import Channels, TransportMaker, make_transport
from oarpy.modules.launcher.cleaning import Cleaning
from oarpy.modules.launcher.endings import STUCK, end_of, end_of_nothing, end_of_refusal, faults_of, lost, out_of_memory
from oarpy.modules.launcher.loads import NodeLoads
from oarpy.modules.launcher.recalling import Recalling
from oarpy.modules.launcher.reports import Arrivals
from oarpy.modules.launcher.running.resizing import Resizes
from oarpy.modules.launcher.running.signalling import Signalling
from oarpy.modules.launcher.running.suspending import Pauses
from oarpy.modules.launcher.running.walltimes import Walltimes
from oarpy.modules.launcher.scripts.application_launchers import ApplicationLaunchers
from oarpy.modules.launcher.scripts.hooks import Hooks
from oarpy.modules.launcher.scripts.on_nodes import end_of_prologue, fault_of_script
from oarpy.modules.launcher.sent_starts import PATIENCE, SentStarts
from oarpy.modules.launcher.specifications import JobHosts, specification
from oarpy.modules.loop.logging import job_ranges
from oarpy.modules.loop.module import Outcome
from oarpy.store.analytics import measured_use
from oarpy.store.database import Connection
from oarpy.store.jobs import execution, requeueing, resubmission
from oarpy.store.jobs.execution import End, LiveRow
from oarpy.store.platform import nodes, site
from oarpy.store.refusals import refusals_of
from oarpy.transport.agent.descriptors import allow_many
from oarpy.wire.jobs import JobKey, JobSpec
from oarpy.wire.messages import (
    CLAIMED,
    Admit,
    Check,
    Clean,
    Cleaned,
    Ended,
    Kill,
    Refused,
    Report,
    Start,
    Started,
)

log = structlog.get_logger()

_NODE_SYNC_PERIOD = 1.0
_SHOWN = 20
"""Jobs that a line of the log names."""


class Launcher:
    """The module that holds the channels to all nodes. What it remembers only saves repeating itself."""

    name = "launcher"

    def __init__(
        self,
        configuration: Configuration,
        make_transport: TransportMaker = make_transport,
        node_sync_period: float = _NODE_SYNC_PERIOD,
        start_patience: float = PATIENCE,
    ) -> None:
        self.period = configuration.modules.launcher
        self._jobs = configuration.jobs
        self._nodes = configuration.nodes
        self._make_transport = make_transport
        self._channels: Channels | None = None
        self._synced = float("-inf")
        self._sync_period = node_sync_period
        self._sent = SentStarts(start_patience)
        self._signalling = Signalling()
        self._unrecorded: list[tuple[str, Report]] = []
        self._cleaning = Cleaning(math.ceil(configuration.jobs.kill_grace))
        self._hooks = Hooks(configuration.jobs)
        self._knocks = CallRequests(configuration.gateway.socket if configuration.gateway.calls else "")
        self._hosts = JobHosts(configuration.jobs, configuration.negotiation.launcher_host)
        self._walltimes = Walltimes(self._hosts)
        self._pauses = Pauses(configuration, self._hosts)
        self._resizes = Resizes(configuration.jobs, self._hosts)
        self._launchers = ApplicationLaunchers(configuration)
        self._loads = NodeLoads()
        self._recalling = Recalling()
        self._hears: dict[type[Report], list[Callable[[str, Any], None]]] = {}
        parts = (self._signalling, self._cleaning, self._hooks, self._knocks, self._walltimes, self._pauses)
        for part in (*parts, self._resizes, self._launchers, self._loads, self._sent, self._recalling):
            for kind, hear in part.hears().items():
                self._hears.setdefault(kind, []).append(hear)
        self._environments: dict[tuple[int, int], dict[str, str]] = {}
        self._unsure = True
        """Whether there may be jobs that are Launching and of which no node was told."""

    def files(self) -> Sequence[int]:
        """Return where reports of the nodes arrive, and ends of programs of the site."""
        return [self._channels.fileno(), *self._hooks.files(), *self._pauses.files()] if self._channels else []

    def run_once(self, connection: Connection, now: datetime) -> Outcome:
        """One round: channels, reports, ends, starts, kills, signals."""
        channels = self._open_channels(connection)
        next_sync = self._sync_nodes(connection, channels)
        reports = channels.reports()
        self._pass_on(reports)
        self._recalling.look(connection, channels)
        # Kept until they are recorded: the database may go away in between, and nodes do not repeat themselves.
        self._unrecorded += reports
        arrivals = sorting.sort(self._unrecorded, self._sent.nodes)
        ended = self._record(connection, channels, arrivals, now.timestamp()) if arrivals else []
        self._unrecorded = _about(self._unrecorded, refusals_of(connection).withheld())
        self._ask_again()
        agenda = execution.agenda(connection)
        over = agenda.noop_end is not None and agenda.noop_end <= now.timestamp()
        look = agenda.settle or over or self._unsure or bool(self._hooks)
        attention = self._placed(execution.live(connection, everything=False)) if look else []
        self._settle(connection, channels, attention, now.timestamp())
        held = self._recalling.awaits(channels)
        started = [] if held else self._launch(connection, channels, attention, agenda.launch)
        self._signalling.kill(channels, attention)
        if agenda.signal:
            self._signalling.signal(
                connection, channels, lambda jobs: self._placed(execution.live_among(connection, list(jobs)))
            )
        if agenda.walltimes or self._walltimes.said:
            self._walltimes.tell(connection, channels)
        if agenda.pauses or self._pauses.awaits:
            self._pauses.tend(connection, channels)
        if agenda.resizes or self._resizes.patience < float("inf"):
            self._resizes.tend(connection, channels)
        if agenda.launchers or self._launchers.awaits:
            self._launchers.tend(connection, channels)
        self._loads.tend(connection, channels)
        word = f"started {len(started)}, ended {len(ended)}" if started or ended else "nothing"
        named = {"started": job_ranges(started), "ended": job_ranges(ended)}
        waits = (
            self._hooks.patience,
            self._pauses.patience,
            self._resizes.patience,
            self._launchers.patience,
            self._sent.wait,
        )
        opening = float("inf") if agenda.gate_opens is None else max(agenda.gate_opens, 0.0)
        wait = min(channels.tend(), next_sync, opening, *waits)
        wake_at = time.time() + wait if agenda.noop_end is None else min(time.time() + wait, agenda.noop_end)
        return Outcome(word, wake_at=wake_at, pending=channels.any_pending, named=named)

    def close(self) -> None:
        """Send what is to be sent, and close the channels; jobs go on."""
        if self._channels is not None:
            self._channels.close()
            self._channels = None
        self._hooks.close()
        self._pauses.close()

    def _open_channels(self, connection: Connection) -> Channels:
        if self._channels is None:
            allow_many()
            self._recalling.begin(connection)
            with connection.transaction():
                nodes.forget_lost_channels(connection)
                nodes.add_hosts(connection, self._hosts.hosts)
            self._channels = Channels(self._nodes, site.instance(connection), self._make_transport)
        return self._channels

    def _sync_nodes(self, connection: Connection, channels: Channels) -> float:
        """See to nodes that are new, moved or gone, not too often; return the seconds until it is wanted again."""
        age = time.monotonic() - self._synced
        if age < self._sync_period:
            return self._sync_period - age
        rows = nodes.nodes(connection, self._hosts.hosts)
        closed = channels.sync(rows)
        for row in rows:
            if row.unfit:
                channels.send(row.name, Check())
        if closed:
            with connection.transaction():
                nodes.record_channels(connection, [(node, "unknown", "", "") for node in closed])
        self._synced = time.monotonic()
        self._unsure = True
        return float("inf")

    def _pass_on(self, reports: Sequence[tuple[str, Report]]) -> None:
        """Give each part what it hears; what is to be recorded is for the launcher itself."""
        for node, report in reports:
            for hear in self._hears.get(type(report), ()):
                hear(node, report)
        self._knocks.pass_on()

    def _record(self, connection: Connection, channels: Channels, arrivals: Arrivals, now: float) -> list[int]:
        """Write what arrived, in one transaction; let nodes forget what is recorded. Returns the jobs that ended."""
        for node, detail in arrivals.complaints:
            log.warning("agent complains", node=node, detail=detail)
        with connection.transaction():
            left_behind = {node: nodes.left_behind(connection, node) for node in arrivals.ready}
            nodes.record_channels(connection, [(node, *state) for node, state in arrivals.channels.items()])
            current = {row.id: row for row in self._rows_of(connection, arrivals)}
            arrivals = arrivals.only(lambda key, node: _is_of(key, node, current))
            told = self._recalling.record(connection, arrivals.recalled, current)
            arrivals.ended.update({end.key: (node, end) for node, end in told if end.key not in arrivals.ended})
            passed = [(key.job, at) for key, (_, at) in arrivals.checkpoints.items() if _is_current(key, current)]
            execution.signal_elsewhere(connection, passed)
            self._judge(connection, arrivals)
            ends = self._ends(arrivals, current, now)
            whole = [end for end in ends if _leaves_nothing(end, current) and not self._hooks]
            closed = execution.end(connection, whole)
            others = [end for end in ends if end.job not in closed]
            starts = {key.job: at for key, (_, at) in arrivals.started.items() if _is_current(key, current)}
            starts |= {end.job: end.started for end in others if end.started is not None}
            execution.started(connection, [start for start in starts.items() if start[0] not in closed])
            moved = execution.finish(connection, others)
            self._resubmit(connection, closed, current.values())
            unknown = [said for key, said in arrivals.ended.items() if not _is_current(key, current)]
            self._recalling.note_ends(connection, unknown)
        self._recalling.told(arrivals.recalled)
        if withheld := refusals_of(connection).withheld():
            # what is not recorded yet, no node may forget
            arrivals = arrivals.only(lambda key, _: key.job not in withheld)
        self._after_record(channels, arrivals, left_behind, current)
        return [*closed, *moved]

    def _rows_of(self, connection: Connection, arrivals: Arrivals) -> list[LiveRow]:
        """Return the live jobs which the reports may be about."""
        if arrivals.ready or arrivals.recalled:
            return self._placed(execution.live(connection, everything=True))
        jobs = {key.job for key in (*arrivals.started, *arrivals.ended, *arrivals.refused)}
        jobs |= {report.key.job for _, report in arrivals.scripts} | {key.job for key in arrivals.checkpoints}
        return self._placed(execution.live_among(connection, sorted(jobs))) if jobs else []

    def _placed(self, rows: Sequence[LiveRow]) -> list[LiveRow]:
        """Put on each job the nodes where it has something, by its types.

        Whatever was done to its rows, its first node is the one where it was sent.
        """
        placed = [(row, self._sent_first(row, self._hosts.of(row.types, row.nodes))) for row in rows]
        return [row if row.nodes == nodes else replace(row, nodes=nodes) for row, nodes in placed]

    def _sent_first(self, row: LiveRow, nodes: tuple[str, ...]) -> tuple[str, ...]:
        sent = self._sent.nodes.get(JobKey(row.id, row.attempt))
        return nodes if sent is None or nodes[:1] == (sent,) else (sent, *(node for node in nodes if node != sent))

    def _ends(self, arrivals: Arrivals, current: dict[int, LiveRow], now: float) -> list[End]:
        """Return the ends that nodes tell of, one a job: ended, refused, kept out by a prologue, or lost.

        A job is lost when its first node, which has just been reached again, knows nothing of it.
        """
        ends = {
            key.job: end_of(report, current[key.job].kill_reason)
            for key, (_, report) in arrivals.ended.items()
            if _is_current(key, current)
        }
        for key, (_, refusal) in arrivals.refused.items():
            if _is_current(key, current):
                again = execution.tries(key.attempt) < self._jobs.launch_limit
                ends.setdefault(key.job, end_of_refusal(refusal, now, again=again))
        for node, report in arrivals.scripts:
            again = execution.tries(report.key.attempt) < self._jobs.launch_limit
            over = end_of_prologue(node, report, now, again=again)
            if over is not None and _is_to_start(report.key, current) and node in current[report.key.job].nodes:
                ends.setdefault(report.key.job, over)
        for node, known in self._recalling.known(arrivals).items():
            for row in current.values():
                key = JobKey(row.id, row.attempt)
                runs_there = row.state in ("Running", "Suspended", "Resuming") and row.nodes[:1] == (node,)
                if runs_there and key not in known and not read_types(row.types).runs_nothing:
                    ends.setdefault(row.id, lost(row.id, now))
        return list(ends.values())

    def _judge(self, connection: Connection, arrivals: Arrivals) -> None:
        """Suspect nodes at fault before anything of theirs is free again; take back those whose fault is over."""
        nodes.healed(connection, [node for node, problem in arrivals.checked.items() if not problem])
        said: list[tuple[str, Ended | Refused | Cleaned]] = [
            *arrivals.ended.values(),
            *arrivals.refused.values(),
            *arrivals.cleaned,
        ]
        met = [
            (one.key.job, node, out_of_memory(one.memory_kills)) for node, one in arrivals.cleaned if one.memory_kills
        ]
        measured_use.note_memory(connection, met)
        used = [(*one.key, node, one.cpu_seconds, one.memory_peak) for node, one in arrivals.cleaned]
        measured_use.add_usage(connection, [some for some in used if some[3:] != (None, None)])
        faults = [fault for node, report in said for fault in faults_of(node, report)]
        faults += [nodes.Fault(node, STUCK, one.key.job, one.detail[:500], heals=True) for node, one in arrivals.stuck]
        faults += [fault for node, report in arrivals.scripts if (fault := fault_of_script(node, report)) is not None]
        for node in nodes.blame(connection, faults):
            log.warning("node at fault", node=node, detail=next(one.text for one in faults if one.node == node))

    def _after_record(
        self,
        channels: Channels,
        arrivals: Arrivals,
        left_behind: dict[str, list[tuple[int, int]]],
        current: dict[int, LiveRow],
    ) -> None:
        """Let nodes forget what is recorded, now and not before; end there what the database says is over."""
        forget: dict[str, list[JobKey]] = {}
        for key, (node, _) in arrivals.ended.items():
            forget.setdefault(node, []).append(key)
        self._sent.over((*arrivals.ended, *arrivals.refused))
        self._signalling.over((*arrivals.ended, *arrivals.refused))
        for node, keys in forget.items():
            channels.forget(node, keys)
        self._unsure |= bool(arrivals.channels)
        for node in arrivals.channels:
            self._sent.lose(node)
        for node, dead in left_behind.items():
            if dead:
                channels.send(node, Clean(tuple(JobKey(*key) for key in dead)))
        for node, ready in arrivals.ready.items():
            stray = [
                one.key for one in ready.jobs if one.key not in arrivals.ended and not _is_current(one.key, current)
            ]
            if stray:
                # The database says that these are over: what still runs of them is not wanted.
                channels.send(node, Kill(tuple(stray), 0))
            # What is claimed only was not started: its agent may have been killed before. It is sent again.
            known = [one.key for one in ready.jobs if one.state != CLAIMED and _is_current(one.key, current)]
            self._sent.known(known, node)

    def _settle(self, connection: Connection, channels: Channels, attention: Sequence[LiveRow], now: float) -> None:
        """Clean the nodes of jobs that are Finishing; close those that are clean, and those over without any node."""
        clean = self._cleaning.clean([row for row in attention if row.state == "Finishing"], channels)
        idle = [row for row in attention if _is_over_on_no_node(row, now)]
        over = self._conclude(connection, channels, clean)
        if over or idle:
            with connection.transaction():
                ended = execution.finish(connection, [end_of_nothing(row.id, row.kill_reason, now) for row in idle])
                over += [] if self._hooks.server_epilogue else ended
                closed = execution.close(connection, [(job, now) for job in over])
                closed += requeueing.requeue(connection, over)
                self._hooks.release(connection, closed)
                self._resubmit(connection, closed, attention)
            self._hooks.let_nodes_forget([row for row in clean if row.id in closed], channels)
        live = {row.id for row in attention}
        self._cleaning.forget(live)
        self._hooks.forget(live)

    def _conclude(self, connection: Connection, channels: Channels, clean: Sequence[LiveRow]) -> list[int]:
        """Run the site's epilogues for jobs that left nothing on their nodes; return those that are over with that."""
        if not self._hooks or not clean:
            return [row.id for row in clean]
        rows = execution.launch_rows(connection, [row.id for row in clean], JobState.FINISHING)
        return self._hooks.concluded(connection, clean, {row.id: self._bare(row) for row in rows}, channels)

    def _bare(self, row: execution.LaunchRow) -> JobSpec:
        """Return what a script of the site may know of a job: nothing that depends on the node or is its user's."""
        return specification(row, {}, self._jobs, "", confined=False)

    def _resubmit(self, connection: Connection, closed: Sequence[int], rows: Iterable[LiveRow]) -> None:
        repeatable = {row.id for row in rows if read_types(row.types).idempotent}.intersection(closed)
        limits = {"losses": self._jobs.resubmission_limit, "repetitions": self._jobs.repetition_limit}
        resubmission.resubmit(connection, sorted(repeatable), **limits)

    def _ask_again(self) -> None:
        """Have starts sent again that their nodes did not answer: that tells what became of the jobs."""
        given_up = self._sent.give_up()
        self._unsure |= bool(given_up)
        for node in sorted({node for _, node in given_up}):
            jobs = [key.job for key, where in given_up if where == node]
            log.warning("node does not answer starts", node=node, jobs=jobs[:_SHOWN], count=len(jobs))

    def _launch(
        self, connection: Connection, channels: Channels, attention: Sequence[LiveRow], waits: bool
    ) -> list[int]:
        """Claim what is to be launched on nodes that answer, then start all that is Launching and not sent yet.

        Returns what was claimed.
        """
        waiting = [
            (job, self._hosts.of(types, hosts), read_types(types).runs_nothing)
            for job, hosts, types, _ in (execution.to_launch(connection) if waits else ())
        ]
        ready = [
            (job, channels.incarnation(hosts[0]))
            for job, hosts, _ in waiting
            if hosts and all(map(channels.is_connected, hosts))
        ]
        idle = [job for job, _, nothing in waiting if nothing]
        nowhere = [job for job, hosts, nothing in waiting if not hosts and not nothing]
        resting: list[int] = []
        claimed = execution.claim(connection, ready)  # one statement: a transaction of its own
        if idle or nowhere:
            with connection.transaction():
                resting = execution.claim(connection, _plain(idle))
                if not self._hooks:
                    execution.started(connection, [(job, time.time()) for job in resting])
                execution.give_up(connection, nowhere, "none of its resources is on a node")
        places = {job: hosts for job, hosts, _ in waiting} | {row.id: row.nodes for row in attention}
        unsent = [row for row in attention if self._is_unsent(row)]
        reachable = [
            row.id for row in unsent if read_types(row.types).runs_nothing or channels.is_connected(row.nodes[0])
        ]
        begun = [*claimed, *(resting if self._hooks else ()), *reachable]
        sent = self._send_starts(connection, channels, begun, places)
        self._unsure = sent < len(claimed) + len(unsent)
        return claimed

    def _is_unsent(self, row: LiveRow) -> bool:
        """Tell whether a job is still to be started."""
        if (
            row.state != JobState.LAUNCHING
            or row.kill_reason is not None
            or JobKey(row.id, row.attempt) in self._sent.nodes
        ):
            return False
        return read_types(row.types).runs_nothing or bool(row.nodes)

    def _send_starts(
        self, connection: Connection, channels: Channels, jobs: Sequence[int], places: dict[int, tuple[str, ...]]
    ) -> int:
        """Send jobs that are Launching to their first nodes; return how many."""
        sent = 0
        rows = execution.launch_rows(connection, jobs)
        if self._hooks:
            rows = self._admitted(connection, rows)
        environments = self._environments_of(connection, {row.submission for row in rows})
        batches: dict[tuple[str, str], list[execution.LaunchRow]] = {}
        for row in rows:
            batches.setdefault((places[row.id][0], row.incarnation), []).append(row)
        for row in rows:
            for node in places[row.id] if row.public_key else ():
                channels.send(node, Admit((JobKey(row.id, row.attempt),), row.user, row.public_key, node))
        for (node, incarnation), batch in batches.items():
            specs = [
                specification(row, environments[row.submission], self._jobs, node, confined=channels.confines(node))
                for row in batch
            ]
            if self._hooks:
                specs = self._hooks.prepared([(spec, places[spec.job]) for spec in specs], channels)
            if specs and channels.send(node, Start(tuple(specs), incarnation)):
                self._sent.sent([spec.key for spec in specs], node)
                sent += len(specs)
        return sent

    def _admitted(self, connection: Connection, rows: Sequence[execution.LaunchRow]) -> list[execution.LaunchRow]:
        """Have the server's prologue run; start what runs nothing, return the others that it let pass."""
        now = time.time()
        passed, failed = self._hooks.pass_server(connection, [(row.id, row.attempt) for row in rows], now)
        idle = [row.id for row in rows if row.id in passed and read_types(row.types).runs_nothing]
        if failed or idle:
            with connection.transaction():
                execution.finish(connection, failed)
                execution.started(connection, [(job, now) for job in idle])
        return [row for row in rows if row.id in passed and not read_types(row.types).runs_nothing]

    def _environments_of(
        self, connection: Connection, submissions: set[tuple[int, int]]
    ) -> Mapping[tuple[int, int], dict[str, str]]:
        """Return the environments of these versions of submissions; those of the last starts are remembered."""
        missing = submissions - self._environments.keys()
        if missing:
            kept = {one: self._environments[one] for one in submissions - missing}
            self._environments = kept | execution.environments(connection, missing)
        return self._environments


def _about(reports: Sequence[tuple[str, Report]], jobs: Container[int]) -> list[tuple[str, Report]]:
    """Return the reports about ``jobs``."""
    return [said for said in reports if isinstance(said[1], (Started, Ended, Refused)) and said[1].key.job in jobs]


def _is_of(key: JobKey, node: str, current: dict[int, LiveRow]) -> bool:
    """Tell whether ``node`` may say what becomes of a job: its first one may, and any when it is over."""
    row = current.get(key.job)
    return row is None or row.nodes[:1] == (node,)


def _is_over_on_no_node(row: LiveRow, now: float) -> bool:
    """Tell whether a job that has nothing on any node is over: it is killed, or runs nothing and its walltime is over.

    If a node still has something of a job that lost its resources, it is ended there when the node says so.
    """
    if row.nodes or row.state == JobState.FINISHING:
        return False
    timed = read_types(row.types).runs_nothing and row.ends_at is not None and row.ends_at <= now
    return row.kill_reason is not None or timed


def _leaves_nothing(end: End, current: Mapping[int, LiveRow]) -> bool:
    """Tell whether nothing is left to be done: a job that ended by itself on its only node left nothing there."""
    by_itself = end.final_state == JobState.TERMINATED and end.started is not None and not end.event
    return by_itself and len(current[end.job].nodes) == 1


def _is_current(key: JobKey, current: dict[int, LiveRow]) -> bool:
    row = current.get(key.job)
    return row is not None and row.attempt == key.attempt


def _is_to_start(key: JobKey, current: dict[int, LiveRow]) -> bool:
    """Tell whether a prologue is that of a start: one on a node that comes to a running job ends nothing."""
    return _is_current(key, current) and current[key.job].state == JobState.LAUNCHING


def _plain(jobs: Sequence[int]) -> list[tuple[int, str]]:
    return [(job, "") for job in jobs]
