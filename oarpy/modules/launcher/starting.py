"""Starting jobs: each is claimed in the database, then sent to its first node, then awaited.

::

    toLaunch --claim--> Launching --prologues--> Start to the first node --> its answer is recorded
                            '- it may not have been sent, or no answer came: sent again
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import structlog

from oarpy.configuration import JobSettings
from oarpy.model.job_types import read_types
from oarpy.model.states import JobState
from oarpy.modules.launcher.channels import Channels
from oarpy.modules.launcher.parts import Hears, Part, Round
from oarpy.modules.launcher.restored_database import RestoredDatabase
from oarpy.modules.launcher.scripts.hooks import Hooks
from oarpy.modules.launcher.specifications import JobHosts, specification
from oarpy.store.database import Connection
from oarpy.store.jobs import execution
from oarpy.store.jobs import scripts as kept_scripts
from oarpy.store.jobs.execution import Agenda, Launch, LiveRow
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import Admit, Ended, Ready, Refused, Start, Started, Welcome

log = structlog.get_logger()

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

PATIENCE = 60.0
"""Seconds for a node to answer a start. Asking again does no harm: a node starts each attempt once."""
_SHOWN = 20
"""Jobs that a line of the log names."""
_OPEN = (JobState.LAUNCHING, JobState.RUNNING, JobState.SUSPENDED, JobState.RESUMING)
"""States of jobs whose users may log in on their nodes."""

Submission = tuple[int, int]
"""A version of a submission, as :class:`Launch` names it."""


class SentStarts(Part):
    """The node of each job that was sent. Forgetting it only sends the job again, which asks for its state."""

    def __init__(self, hosts: JobHosts, patience: float = PATIENCE) -> None:
        self.nodes: dict[JobKey, str] = {}
        self.unsure = True
        """Whether there may be Launching jobs that no node got."""
        self._hosts = hosts
        self._patience = patience
        self._unanswered: dict[JobKey, float] = {}
        """When each was sent, the oldest first."""

    def hears(self) -> Hears:
        """Hear the answers."""
        return {Started: self._answered, Ended: self._answered, Refused: self._answered}

    def _answered(self, _node: str, report: Started | Ended | Refused) -> None:
        self._unanswered.pop(report.key, None)

    def record(self, turn: Round) -> None:
        """Have starts sent again that their nodes did not answer: the answer tells the state of the jobs."""
        late = time.monotonic() - self._patience
        given_up = {key: self.nodes[key] for key, since in self._unanswered.items() if since <= late}
        self.over(given_up)
        self.unsure |= bool(given_up)
        for node in sorted(set(given_up.values())):
            jobs = [key.job for key, where in given_up.items() if where == node]
            log.warning("node does not answer starts", node=node, jobs=jobs[:_SHOWN], count=len(jobs))

    def looks(self) -> bool:
        """Tell whether some job may have to be sent."""
        return self.unsure

    def wait(self) -> float:
        """Return the seconds until the first node has been silent for too long about a job."""
        first = next(iter(self._unanswered.values()), math.inf)
        return max(0.0, first + self._patience - time.monotonic())

    def sent(self, keys: Iterable[JobKey], node: str) -> None:
        """Note that jobs were sent to a node now."""
        now = time.monotonic()
        for key in keys:
            self.nodes[key] = node
            self._unanswered.pop(key, None)
            self._unanswered[key] = now

    def known(self, keys: Iterable[JobKey], node: str) -> None:
        """Note jobs that a node knows and tells of."""
        self.nodes |= dict.fromkeys(keys, node)

    def over(self, keys: Iterable[JobKey]) -> None:
        """Forget jobs that have ended."""
        for key in keys:
            self.nodes.pop(key, None)
            self._unanswered.pop(key, None)

    def lose(self, node: str) -> None:
        """Forget the jobs of a node: messages on their way when its channel was lost may not have arrived."""
        self.nodes = {key: head for key, head in self.nodes.items() if head != node}
        self._unanswered = {key: since for key, since in self._unanswered.items() if key in self.nodes}
        self.unsure = True

    def placed(self, rows: Iterable[LiveRow]) -> list[LiveRow]:
        """Put on each job the nodes where it has something, by its types.

        Whatever happened to its rows, its first node is the node where it was sent.
        """
        placed = [(row, self._sent_first(row, self._hosts.of(row.types, row.nodes))) for row in rows]
        return [row if row.nodes == nodes else replace(row, nodes=nodes) for row, nodes in placed]

    def _sent_first(self, row: LiveRow, nodes: tuple[str, ...]) -> tuple[str, ...]:
        sent = self.nodes.get(JobKey(row.id, row.attempt))
        return nodes if sent is None or nodes[:1] == (sent,) else (sent, *(node for node in nodes if node != sent))


class Starting(Part):
    """Jobs to launch, and Launching jobs. ``sent`` has the jobs that were sent to a node."""

    def __init__(
        self, settings: JobSettings, hosts: JobHosts, sent: SentStarts, recalling: RestoredDatabase, hooks: Hooks
    ) -> None:
        self._settings = settings
        self._hosts = hosts
        self._sent = sent
        self._recalling = recalling
        self._hooks = hooks
        self._environments: dict[Submission, dict[str, str]] = {}
        self._scripts: dict[str, str] = {}
        self._back: set[str] = set()
        """Nodes whose channels were opened: messages on their way through the last channels may have been lost."""

    def hears(self) -> Hears:
        """Hear which channels are open."""
        return {Ready: lambda node, _report: self._back.add(node)}

    def act(self, turn: Round, agenda: Agenda) -> None:
        """Claim jobs to launch on nodes that answer, then start all Launching jobs that are not sent yet."""
        if self._recalling.awaits(turn.channels):
            return
        connection, channels = turn.connection, turn.channels
        if channels.takes_log_ins and self._back:
            self._let_log_in_again(connection, channels)
        self._back.clear()
        waiting = [
            (job, self._hosts.of(types, hosts), read_types(types).runs_nothing)
            for job, hosts, types, _ in (execution.to_launch(connection) if agenda.launch else ())
        ]
        ready = [
            (job, channels.incarnation(hosts[0]))
            for job, hosts, _ in waiting
            if hosts and all(map(channels.is_connected, hosts))
        ]
        idle = [job for job, _, nothing in waiting if nothing]
        nowhere = [job for job, hosts, nothing in waiting if not hosts and not nothing]
        claimed = execution.claim(connection, ready)  # one statement: a transaction of its own
        resting = self._claim_resting(connection, idle, nowhere) if idle or nowhere else []
        places = {job: hosts for job, hosts, _ in waiting} | {row.id: row.nodes for row in turn.attention}
        unsent = [row for row in turn.attention if self._is_unsent(row)]
        reachable = [
            row.id for row in unsent if read_types(row.types).runs_nothing or channels.is_connected(row.nodes[0])
        ]
        begun = [*claimed, *(resting if self._hooks else ()), *reachable]
        sent = self._send(connection, channels, begun, places)
        self._sent.unsure = sent < len(claimed) + len(unsent)
        turn.started += claimed

    def _claim_resting(self, connection: Connection, idle: Sequence[int], nowhere: Sequence[int]) -> list[int]:
        """Claim jobs that run nothing, which then run unless a hook comes first; give up jobs that are on no node."""
        with connection.transaction():
            resting = execution.claim(connection, [(job, "") for job in idle])
            if not self._hooks:
                execution.started(connection, [(job, time.time()) for job in resting])
            execution.give_up(connection, nowhere, "none of its resources is on a node")
        return resting

    def _is_unsent(self, row: LiveRow) -> bool:
        """Tell whether a job is still to be started."""
        if row.state != JobState.LAUNCHING or row.kill_reason is not None:
            return False
        return not self._is_sent(row) and (read_types(row.types).runs_nothing or bool(row.nodes))

    def _send(
        self, connection: Connection, channels: Channels, jobs: Sequence[int], places: Mapping[int, tuple[str, ...]]
    ) -> int:
        """Send jobs that are Launching to their first nodes; return how many."""
        sent: set[JobKey] = set()
        launches = execution.launches(connection, jobs)
        if self._hooks:
            launches = self._admitted(connection, launches)
        environments = self._environments_of(connection, {launch.submission for launch in launches})
        scripts = self._scripts_of(connection, {launch.kept_script for launch in launches if launch.kept_script})
        batches: dict[tuple[str, str], list[Launch]] = {}
        for launch in launches:
            batches.setdefault((places[launch.spec.job][0], launch.incarnation), []).append(launch)
        for launch in launches:
            for node in places[launch.spec.job] if launch.public_key else ():
                channels.send(node, Admit((launch.spec.key,), launch.spec.user, launch.public_key, node))
        for (node, incarnation), batch in batches.items():
            specs = [
                specification(
                    launch, environments[launch.submission], self._settings, node, confined=channels.confines(node)
                )
                for launch in batch
            ]
            specs = [
                spec.replace(script=scripts.get(launch.kept_script, "")) if launch.kept_script else spec
                for spec, launch in zip(specs, batch, strict=True)
            ]
            if self._hooks:
                specs = self._hooks.prepared([(spec, places[spec.job]) for spec in specs], channels)
            if specs and channels.send(node, Start(tuple(specs), incarnation)):
                self._sent.sent([spec.key for spec in specs], node)
                sent.update(spec.key for spec in specs)
        if channels.takes_log_ins:
            started = [launch for launch in launches if launch.spec.key in sent]
            self._let_log_in(channels, started, environments, places)
        return len(sent)

    def _let_log_in(
        self,
        channels: Channels,
        launches: Sequence[Launch],
        environments: Mapping[Submission, dict[str, str]],
        places: Mapping[int, tuple[str, ...]],
        nodes: Collection[str] | None = None,
    ) -> None:
        """Send the nodes of jobs (``nodes``: these alone) the message that their users may log in there.

        It comes behind the start, which the first node knows. A node that is away now gets it when it is back.
        """
        for launch in launches:
            for number, node in enumerate(places[launch.spec.job]):
                if channels.is_connected(node) and (nodes is None or node in nodes):
                    environment, confined = environments[launch.submission], channels.confines(node)
                    spec = specification(launch, environment, self._settings, node, confined=confined)
                    channels.send(node, Welcome(spec, number == 0))

    def _let_log_in_again(self, connection: Connection, channels: Channels) -> None:
        """Tell nodes that are back of the jobs that were sent and have not ended."""
        rows = [
            row
            for row in self._sent.placed(execution.live(connection, everything=True))
            if row.kill_reason is None and row.state in _OPEN and not self._back.isdisjoint(row.nodes)
        ]
        places = {row.id: row.nodes for row in rows if row.state != JobState.LAUNCHING or self._is_sent(row)}
        launches = [launch for state in _OPEN for launch in execution.launches(connection, list(places), state)]
        environments = self._environments_of(connection, {launch.submission for launch in launches})
        self._let_log_in(channels, launches, environments, places, self._back)

    def _is_sent(self, row: LiveRow) -> bool:
        return JobKey(row.id, row.attempt) in self._sent.nodes

    def _admitted(self, connection: Connection, launches: Sequence[Launch]) -> list[Launch]:
        """Have the server's prologue run; start the jobs that run nothing, return the others that it let pass."""
        now = time.time()
        passed, failed = self._hooks.pass_server(connection, [launch.spec.key for launch in launches], now)
        through = [launch for launch in launches if launch.spec.job in passed]
        idle = [launch.spec.job for launch in through if read_types(launch.types).runs_nothing]
        if failed or idle:
            with connection.transaction():
                execution.finish(connection, failed)
                execution.started(connection, [(job, now) for job in idle])
        return [launch for launch in through if not read_types(launch.types).runs_nothing]

    def _scripts_of(self, connection: Connection, digests: set[str]) -> Mapping[str, str]:
        """Return the kept scripts of jobs by digest."""
        self._scripts = _remembered(self._scripts, digests, lambda missing: kept_scripts.contents(connection, missing))
        return self._scripts

    def _environments_of(
        self, connection: Connection, submissions: set[Submission]
    ) -> Mapping[Submission, dict[str, str]]:
        """Return the environments of these versions of submissions."""
        self._environments = _remembered(
            self._environments, submissions, lambda missing: execution.environments(connection, missing)
        )
        return self._environments


def _remembered(known: dict[K, V], wanted: set[K], read: Callable[[set[K]], dict[K, V]]) -> dict[K, V]:
    """Return the values of ``wanted``; values of the last starts are remembered, and only missing ones are read."""
    missing = wanted - known.keys()
    return {key: known[key] for key in wanted - missing} | read(missing) if missing else known
