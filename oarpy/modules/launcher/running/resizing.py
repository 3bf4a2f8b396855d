"""Tells the nodes of running jobs which hosts join them and which leave them.

::

    grant:          Admit, Resize to nodes that come --> prologue there --> Resize to the others --> granted
    release, take:  Resize to nodes that stay, Clean to those that leave --> epilogue there --> free
    a node that comes is away, or fails --> the grant is taken back
    a node that stays or leaves does not follow for long --> the job goes on without

A job has one resize at a time. The answers of nodes are remembered here alone: without them, the messages are repeated.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from oarpy.configuration import JobSettings
from oarpy.model.states import JobState
from oarpy.modules.launcher.channels import Channels
from oarpy.modules.launcher.parts import Hears, Part, Round
from oarpy.modules.launcher.scripts.hooks import NodeScripts
from oarpy.modules.launcher.specifications import DEFAULT_TYPE, JobHosts, own_gpus, specification
from oarpy.modules.launcher.starting import SentStarts
from oarpy.store import events
from oarpy.store.database import Connection
from oarpy.store.events import NewEvent
from oarpy.store.jobs import execution, resizes
from oarpy.store.jobs.execution import Agenda, Launch
from oarpy.store.jobs.resizes import ResizeRow
from oarpy.wire.jobs import JobKey, JobSpec
from oarpy.wire.messages import (
    EPILOGUE,
    OK,
    PROLOGUE,
    Admit,
    ChannelLost,
    Clean,
    Cleaned,
    Command,
    Ready,
    Release,
    Resize,
    Resized,
    ScriptEnded,
    Welcome,
)

log = structlog.get_logger()

_GRANT = "grant"
_REPEAT = 10.0
_PATIENCE = 30.0
"""Seconds after which a message is repeated, and, beyond the time for a kill, for which an answer is awaited."""


@dataclass(slots=True)
class _Progress:
    """The nodes of a resize: since when each is due, when it got its message (monotonic), and which have followed."""

    key: JobKey
    since: dict[str, float] = field(default_factory=dict)
    told: dict[str, float] = field(default_factory=dict)
    followed: set[str] = field(default_factory=set)
    failed: str = ""
    silent: dict[str, str] = field(default_factory=dict)
    """Nodes that are waited for no longer, and their last messages."""
    details: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Change:
    """A resize as nodes get it: the nodes that come, leave and stay, and the resources of the job afterwards."""

    resize: ResizeRow
    job: Launch
    spec: JobSpec
    public_key: str
    coming: Sequence[str]
    going: Sequence[str]
    staying: Sequence[str]
    environment: Mapping[str, str]
    """The variables of users who log in; empty where log-ins are not allowed."""

    def order(self, node: str) -> Resize:
        """Return the message to a node of the job."""
        spec, enters, gpus = self.spec, node in self.coming, own_gpus(self.job, node)
        return Resize((spec.key,), self.resize.id, spec.user, spec.nodes, spec.resources, enters, gpus)


class Resizes(Part):
    """The open resizes as far as they have got."""

    def __init__(self, settings: JobSettings, hosts: JobHosts, sent: SentStarts) -> None:
        self._settings = settings
        self._hosts = hosts
        self._sent = sent
        self._grace = math.ceil(settings.kill_grace)
        self._prologue = NodeScripts(PROLOGUE, settings.prologue, settings.script_timeout)
        self._epilogue = NodeScripts(
            EPILOGUE, settings.epilogue, settings.script_timeout, after_prologue=bool(settings.prologue)
        )
        self._progress: dict[int, _Progress] = {}

    def hears(self) -> Hears:
        """Return the method for each report that is taken here."""
        return {
            Resized: self._resized,
            Cleaned: self._cleaned,
            ScriptEnded: self._scripted,
            Ready: self._lose,
            ChannelLost: self._lose,
        }

    def _resized(self, node: str, report: Resized) -> None:
        progress = self._progress.get(report.order)
        if progress is None or progress.key != report.key or node not in progress.told:
            return
        if not report.detail:
            progress.followed.add(node)
            return
        log.warning("node cannot resize a job", node=node, job=report.key.job, detail=report.detail)
        progress.details[node] = report.detail
        progress.failed = f"node {node}: {report.detail}"[:500]

    def _cleaned(self, node: str, report: Cleaned) -> None:
        for progress in self._progress.values():
            if progress.key == report.key and node in progress.told:
                progress.followed.add(node)

    def _scripted(self, node: str, report: ScriptEnded) -> None:
        (self._prologue if report.kind == PROLOGUE else self._epilogue).answered(node, report)
        if report.kind == PROLOGUE and report.outcome != OK:
            for progress in self._progress.values():
                if progress.key == report.key and node in progress.told:
                    progress.failed = f"node {node}: {report.detail or report.outcome}"[:500]

    def _lose(self, node: str, _report: Ready | ChannelLost) -> None:
        """Forget the answers of a node whose channel was lost, so that every message is sent again."""
        for progress in self._progress.values():
            progress.told.pop(node, None)
            progress.followed.discard(node)
        for scripts in (self._prologue, self._epilogue):
            scripts.lose(node)

    def wait(self) -> float:
        """Return the seconds after which messages to nodes are repeated."""
        return _REPEAT if self._progress else math.inf

    def act(self, turn: Round, agenda: Agenda) -> None:
        """Send nodes the changes that they do not know.

        Record the resizes that all nodes have followed, and the impossible resizes.
        """
        if not (agenda.resizes or self._progress):
            return
        while self._advance(turn.connection, turn.channels):
            continue  # with the next resizes of the same jobs

    def _advance(self, connection: Connection, channels: Channels) -> bool:
        """Bring the first resize of each job on; return whether one of them is finished."""
        changes, stale = self._changes(connection, channels)
        present = {change.resize.id: change.spec.key for change in changes}
        self._progress = {number: self._progress.get(number) or _Progress(key) for number, key in present.items()}
        failed = [change for change in changes if self._fails(change)]
        followed = [change for change in changes if change not in failed and self._is_followed(change, channels)]
        if failed or followed or stale:
            with connection.transaction():
                resizes.confirm(connection, [*stale, *(change.resize.id for change in followed)])
                events.log(connection, [event for change in followed for event in self._unheard(change)])
                for change in failed:
                    why = self._progress[change.resize.id].failed or "a node that was to come to it is away"
                    resizes.take_back(connection, change.resize, why, again=change.resize.away)
        for change in failed:
            del self._progress[change.resize.id]  # the same resize takes back now the hosts that it gave
        for change in followed:
            self._let_forget(change, channels)
        done = {change.resize.job for change in (*failed, *followed)}
        for scripts in (self._prologue, self._epilogue):
            scripts.forget({key.job for key in present.values()} - done)
        return bool(done)

    def _changes(self, connection: Connection, channels: Channels) -> tuple[list[_Change], list[int]]:
        """Return the first resize of each running job, and the numbers of resizes of jobs that are over."""
        opened = resizes.opened(connection)
        rows: dict[int, list[ResizeRow]] = {}
        for row in opened:
            rows.setdefault(row.job, []).append(row)
        jobs = execution.launches(connection, list(rows), JobState.RUNNING)
        submissions = {job.submission for job in jobs} if channels.takes_log_ins else set()
        environments = execution.environments(connection, submissions) if submissions else {}
        changes = [self._change(job, environments.get(job.submission, {}), *rows[job.spec.job]) for job in jobs]
        return changes, [row.id for row in opened if row.over]

    def _change(self, job: Launch, environment: Mapping[str, str], resize: ResizeRow, *later: ResizeRow) -> _Change:
        to_come = {number for row in later if row.kind == _GRANT for number in row.resources}
        held = [resource for resource in job.held if resource["resource_id"] not in to_come]
        rest = [resource for resource in held if resource["resource_id"] not in resize.resources]
        kept = held if resize.kind == _GRANT else rest
        before, after = self._places(job, rest if resize.kind == _GRANT else held), self._places(job, kept)
        afterwards = replace(job, held=tuple(kept))
        return _Change(
            resize,
            afterwards,
            specification(afterwards, {}, self._settings, "", confined=False),
            job.public_key,
            coming=[node for node in after if node not in before],
            going=[node for node in before if node not in after],
            staying=[node for node in after if node in before],
            environment=environment,
        )

    def _places(self, job: Launch, resources: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
        nodes = dict.fromkeys(
            str(resource["network_address"]) for resource in resources if resource["type"] == DEFAULT_TYPE
        )
        return self._hosts.of(job.types, nodes)

    def _fails(self, change: _Change) -> bool:
        """Tell whether a node that comes cannot: it is away, or has reported so. It is not waited for then."""
        return change.resize.kind == _GRANT and (change.resize.away or bool(self._progress[change.resize.id].failed))

    def _is_followed(self, change: _Change, channels: Channels) -> bool:
        """Send the change to the nodes in their order; return whether all have made it."""
        if change.resize.kind == _GRANT:
            if not self._told(change, change.coming, channels):
                return False
            if self._prologue and not self._prologue.is_done(change.spec, change.coming, channels):
                return False
            return self._told(change, change.staying, channels, _PATIENCE)
        # A lost node is not waited for: it is cleaned when it is back.
        reached = [node for node in change.going if channels.is_connected(node) or channels.is_pending(node)]
        stays, goes = (self._told(change, some, channels, _PATIENCE) for some in (change.staying, reached))
        if not (stays and goes):
            return False
        return not self._epilogue or self._epilogue.is_done(change.spec, change.going, channels)

    def _told(self, change: _Change, nodes: Sequence[str], channels: Channels, patience: float = math.inf) -> bool:
        """Repeat the order to nodes that have not followed.

        Return whether all have, or have had ``patience`` seconds.
        """
        progress, moment = self._progress[change.resize.id], time.monotonic()
        waiting = [node for node in nodes if node not in progress.followed and node not in progress.silent]
        for node in waiting:
            if moment - progress.since.setdefault(node, moment) > patience + self._grace:
                progress.silent[node] = progress.details.get(node, "no answer")
                continue
            due = moment - progress.told.get(node, float("-inf")) >= _REPEAT
            if not (due and channels.is_connected(node)):
                continue
            if all(channels.send(node, order) for order in self._orders(change, node, channels)):
                progress.told[node] = moment
        return all(node in progress.silent for node in waiting)

    def _unheard(self, change: _Change) -> list[NewEvent]:
        """Return the events about nodes that did not follow."""
        return [
            NewEvent("RESIZE_NOT_FOLLOWED", f"node {node}: {detail}"[:500], change.resize.job)
            for node, detail in self._progress[change.resize.id].silent.items()
        ]

    def _orders(self, change: _Change, node: str, channels: Channels) -> list[Command]:
        if node in change.going:
            return [Clean((change.spec.key,), self._grace)]
        orders: list[Command] = [change.order(node)]
        if node in change.coming and change.public_key:
            orders.insert(0, Admit((change.spec.key,), change.spec.user, change.public_key, node))
        if channels.takes_log_ins:
            confined = channels.confines(node)
            spec = specification(change.job, change.environment, self._settings, node, confined=confined)
            orders.append(Welcome(spec, head=self._sent.nodes.get(spec.key) == node))
        return orders

    def _let_forget(self, change: _Change, channels: Channels) -> None:
        """Let nodes that a job has left drop the records of its scripts: the job may come back."""
        if self._prologue or self._epilogue:
            for node in change.going:
                channels.send(node, Release((change.spec.key,)))
