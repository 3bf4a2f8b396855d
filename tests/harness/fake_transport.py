"""A transport without nodes for tests: an agent's promises kept in memory, and handles to make things go wrong."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from oarpy.transport.inbox import Inbox
from oarpy.transport.node import NodeAddress
from oarpy.wire.jobs import JobKey, JobSpec
from oarpy.wire.messages import (
    CLAIMED,
    ChangeWalltime,
    ChannelLost,
    Check,
    Checked,
    CheckHealth,
    Clean,
    Cleaned,
    Command,
    Ended,
    Forget,
    Gpus,
    GpuUse,
    Health,
    JobOrder,
    JobReport,
    Kill,
    LauncherEnded,
    Load,
    MeasuredGpu,
    MeasureGpus,
    Ping,
    Pong,
    Ready,
    Recall,
    Recalled,
    RecalledJob,
    Refused,
    Report,
    Resize,
    Resized,
    Resume,
    Resumed,
    RunLaunchers,
    RunScript,
    ScriptEnded,
    Start,
    Started,
    Suspend,
    Suspended,
    TellGpus,
    TellLoad,
    WalltimeChanged,
    Welcome,
)

_EXIT = re.compile(r"(?:.*;\s*)?exit (\d+)\s*")
_ENDLESS = re.compile(r".*\b(sleep|cat)\b.*")

_SHORT = 10
"""Seconds: a job that is kept for no longer ends with its program here, one of a walltime too."""

Script = Callable[[JobSpec], int | None]
"""What becomes of a job at its start: its raw wait status, or None when it runs until a test ends it."""


def shell_like(spec: JobSpec) -> int | None:
    """Do as a shell would: ``... exit N`` ends at once with N, what sleeps or reads runs on, all else ends with 0."""
    if found := _EXIT.fullmatch(spec.command):
        return int(found[1]) << 8
    return None if _ENDLESS.fullmatch(spec.command) else 0


@dataclass(slots=True)
class FakeJob:
    """One started job of a fake node."""

    spec: JobSpec | None
    started: Started | None
    ended: Ended | None = None
    kept_status: int | None = None
    """Of a kept job whose program has ended: how."""
    suspended: Suspended | None = None
    walltime: int = 0

    @property
    def state(self) -> str:
        """The state word an agent would report."""
        if self.ended is not None:
            return "ended"
        return "suspended" if self.suspended is not None else "running"


@dataclass(slots=True)
class FakeNode:
    """What a node keeps on its disk, and how it behaves."""

    name: str
    boots: int = 1
    jobs: dict[JobKey, FakeJob] = field(default_factory=dict)
    forgotten: set[JobKey] = field(default_factory=set)
    past: dict[JobKey, RecalledJob] = field(default_factory=dict)
    starts: list[JobSpec] = field(default_factory=list)
    node_files: dict[JobKey, tuple[str, ...]] = field(default_factory=dict)
    """Names of nodes that jobs read here since they were resized."""
    resize_problem: str = ""
    claimed: set[JobKey] = field(default_factory=set)
    """Jobs whose agent was killed before it started them."""
    refusal: str = ""
    problem: str = ""
    unhealthy: str = ""
    """What the site's check says of it."""
    load: Load = field(default_factory=lambda: Load(0.0, 1024, 60))
    gpus: int = 0
    measured: dict[int, MeasuredGpu] | None = field(default_factory=dict)
    """What its drivers tell of its GPUs, by their numbers."""
    welcome: dict[JobKey, tuple[str, bool]] = field(default_factory=dict)
    """Whose user may log in for which job, and whether that is led from here."""
    scripts: list[tuple[str, int]] = field(default_factory=list)
    script_outcomes: dict[str, str | None] = field(default_factory=dict)
    unreachable: str = ""
    deaf: bool = False
    connected: bool = False

    @property
    def incarnation(self) -> str:
        """The current life of the node."""
        return f"boot-{self.boots}:{self.name}"


class FakeTransport:
    """Keeps the same contract as the real transports; ``node(name)`` is a test's handle on one node.

    Tests call ``finish``, ``lose`` and ``reboot``; the rest is the contract. ``sent`` lists all commands that went to
    an open channel, ``clock`` gives the nodes' time (seconds since the epoch).
    """

    def __init__(self, inbox: Inbox, script: Script = shell_like, clock: Callable[[], float] = time.time) -> None:
        self._inbox = inbox
        self._script = script
        self._clock = clock
        self._nodes: dict[str, FakeNode] = {}
        self.sent: list[tuple[str, Command]] = []

    @property
    def inbox(self) -> Inbox:
        """Where messages arrive."""
        return self._inbox

    def node(self, name: str) -> FakeNode:
        """Return the node of that name, made when it is new."""
        return self._nodes.setdefault(name, FakeNode(name))

    def finish(self, name: str, key: JobKey, status: int = 0, reason: str = "exited") -> None:
        """Let a running job end with a raw wait status; told now or, without a channel, at the next connection."""
        self._end(self.node(name), key, status, reason)

    def lose(self, name: str, reason: str = "the connection was lost") -> None:
        """Cut the channel; jobs go on."""
        node = self.node(name)
        if node.connected:
            node.connected = False
            self._inbox.put(name, [ChannelLost(reason)])

    def reboot(self, name: str, keep_state: bool = True) -> None:
        """Crash the node: its channel and its jobs are gone, its disk is kept or not."""
        node = self.node(name)
        self.lose(name)
        node.boots += 1
        if not keep_state:
            node.jobs.clear()
            node.forgotten.clear()
        for key, job in node.jobs.items():
            if job.ended is None:
                self._end(node, key, None, "lost")

    def connect(self, node: NodeAddress) -> None:
        """Greet at once, or refuse when the test made the node unreachable."""
        fake = self.node(node.name)
        if fake.unreachable:
            fake.connected = False
            self._inbox.put(node.name, [ChannelLost(fake.unreachable)])
            return
        fake.connected = True
        reports = [JobReport(key, job.state) for key, job in fake.jobs.items()]
        reports += [JobReport(key, CLAIMED) for key in fake.claimed]
        highest = max((key.job for key in (*fake.jobs, *fake.forgotten)), default=0)
        ready = Ready(fake.boots, f"boot-{fake.boots}", fake.incarnation, self._clock(), tuple(reports), highest)
        told: list[Report] = [ready]
        for job in fake.jobs.values():
            told += _story(job)
        self._inbox.put(node.name, told)

    def connected(self, name: str) -> bool:
        """Tell whether the channel of a node is open."""
        return self.node(name).connected

    def send(self, name: str, command: Command) -> bool:
        """Act on a command as an agent would; a deaf node takes it and does nothing but claim jobs."""
        node = self.node(name)
        if not node.connected:
            return False
        self.sent.append((name, command))
        if not node.deaf:
            self._inbox.put(name, self._act(node, command))
        elif isinstance(command, Start):
            node.claimed |= {spec.key for spec in command.jobs} - node.jobs.keys()
        return True

    def disconnect(self, name: str) -> None:
        """Close the channel silently."""
        self.node(name).connected = False

    def close(self) -> None:
        """Close all channels silently."""
        for node in self._nodes.values():
            node.connected = False

    def _act(self, node: FakeNode, command: Command) -> list[Report]:
        if isinstance(command, Start):
            return [report for spec in command.jobs for report in self._start(node, spec, command.incarnation)]
        if isinstance(command, Ping):
            return [Pong(command.token, self._clock())]
        if isinstance(command, Check):
            return [Checked(node.problem or node.unhealthy)]
        if isinstance(command, CheckHealth):
            return [Health(node.unhealthy)] if command.program else []
        if isinstance(command, TellLoad):
            return [node.load]
        if isinstance(command, TellGpus):
            return [Gpus(node.gpus)]
        if isinstance(command, MeasureGpus):
            known = node.measured
            return [] if known is None else [GpuUse(tuple(known[gpu] for gpu in command.gpus if gpu in known))]
        if isinstance(command, Recall):
            return [Recalled((*node.past.values(), *(_past(key, job) for key, job in node.jobs.items())))]
        if isinstance(command, RunScript):
            return [report for spec in command.jobs for report in self._script_of(node, command.kind, spec.key)]
        if isinstance(command, RunLaunchers):
            return [LauncherEnded(spec.key, "a fake node runs no launchers") for spec in command.jobs]
        if isinstance(command, Welcome):
            node.welcome[command.job.key] = (command.job.user, command.head)
            return []
        assert isinstance(command, JobOrder)
        return [report for key in command.jobs for report in self._obey(node, command, key)]

    def _obey(self, node: FakeNode, order: JobOrder, key: JobKey) -> list[Report]:
        job = node.jobs.get(key)
        match order:
            case Kill():
                return self._kill(node, key)
            case Resize():
                if not node.resize_problem and (order.enters or key not in node.forgotten):
                    node.node_files[key] = order.nodes
                return [Resized(key, order.order, node.resize_problem)]
            case Clean():
                node.node_files.pop(key, None)
                if job is None or job.started is None or job.ended is not None:
                    return [Cleaned(key, 0, 0)]
                job.ended = Ended(key, 9, "exited", self._start_of(job), self._clock())
                return [Cleaned(key, 1, 0), job.ended]
            case Forget():
                node.node_files.pop(key, None)
                if job is not None:
                    node.past[key] = _past(key, node.jobs.pop(key))
                node.forgotten.add(key)
            case Suspend() | Resume() if job is None:
                return [(Suspended if isinstance(order, Suspend) else Resumed)(key, self._clock())]
            case Suspend() | Resume() | ChangeWalltime() if job is not None:
                return _story(job) if job.ended is not None else self._change(job, order, key)
        return []

    def _change(self, job: FakeJob, order: Suspend | Resume | ChangeWalltime, key: JobKey) -> list[Report]:
        if isinstance(order, Suspend):
            job.suspended = Suspended(key, self._clock())
            return [job.suspended]
        if isinstance(order, Resume):
            job.suspended = None
            return [Resumed(key, self._clock())]
        job.walltime = order.seconds
        return [WalltimeChanged(key, order.seconds)]

    def _start(self, node: FakeNode, spec: JobSpec, fence: str) -> list[Report]:
        key = spec.key
        if fence not in ("", node.incarnation):
            return [Refused(key, "INCARNATION", "first sent to an earlier life of this node")]
        if spec.start_deadline and self._clock() > spec.start_deadline:
            return [Refused(key, "START_DEADLINE", "the start came too late")]
        if key in node.forgotten:
            return [Refused(key, "FORGOTTEN", "this attempt is over")]
        if key in node.jobs:
            return _story(node.jobs[key])
        if node.refusal:
            return [Refused(key, node.refusal, "as the test wants")]
        node.claimed.discard(key)
        node.starts.append(spec)
        job = node.jobs[key] = FakeJob(spec, Started(key, self._clock()), walltime=spec.walltime)
        status = self._script(spec)
        if status is not None and spec.kept > _SHORT and not 0 < spec.walltime <= _SHORT:
            job.kept_status = status
        elif status is not None:
            job.ended = Ended(key, status, "exited", self._start_of(job), self._clock())
        return _story(job)

    @staticmethod
    def _script_of(node: FakeNode, kind: str, key: JobKey) -> list[Report]:
        """A script that was not run before runs; it ends as the test wants, never when that is None."""
        if (kind, key.job) not in node.scripts:
            node.scripts.append((kind, key.job))
        outcome = node.script_outcomes.get(kind, "ok")
        return [] if outcome is None else [ScriptEnded(key, kind, outcome, "" if outcome == "ok" else "as asked")]

    def _kill(self, node: FakeNode, key: JobKey) -> list[Report]:
        if key in node.forgotten:
            return [Refused(key, "FORGOTTEN", "this attempt is over")]
        job = node.jobs.setdefault(key, FakeJob(None, None))
        if job.ended is None:
            status = None if job.started is None else 15
            status, reason = (status, "killed") if job.kept_status is None else (job.kept_status, "exited")
            job.ended = Ended(key, status, reason, self._start_of(job), self._clock())
        return [job.ended]

    def _end(self, node: FakeNode, key: JobKey, status: int | None, reason: str) -> None:
        job = node.jobs[key]
        if job.ended is None:
            job.ended = Ended(key, status, reason, self._start_of(job), self._clock())
            if node.connected:
                self._inbox.put(node.name, [job.ended])

    @staticmethod
    def _start_of(job: FakeJob) -> float | None:
        return None if job.started is None else job.started.start


def _past(key: JobKey, job: FakeJob) -> RecalledJob:
    user, resources = ("", 0) if job.spec is None else (job.spec.user, len(job.spec.nodes))
    known = RecalledJob(key, user, resources, None if job.started is None else job.started.start)
    if job.ended is None:
        return known
    return known.replace(end=job.ended.end, status=job.ended.status, reason=job.ended.reason)


def _story(job: FakeJob) -> list[Report]:
    if job.ended is not None:
        return [job.ended]
    told: list[Report] = [job.started] if job.started is not None else []
    return told + ([job.suspended] if job.suspended is not None else [])
