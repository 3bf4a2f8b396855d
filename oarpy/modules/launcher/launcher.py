"""The launcher as a module: a loop over its parts.

::

    reports --> each part hears its own --> each part records --> the agenda is read --> each part acts

The order of the table is the order of effects: reports of nodes are recorded, ended jobs are closed, others are
started; then come kills, signals, walltimes, suspensions and resizes. Lost channels are opened again at the end.

Everything is written before it is acted upon. A job is Launching before its node gets it; its end is recorded before
its node forgets it. So whatever is killed, the next round finds all it needs in the database and on the nodes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from oarpy import slices
from oarpy.configuration import Configuration
from oarpy.modules.launcher.call_requests import CallRequests
from oarpy.modules.launcher.channels import Channels, TransportMaker, make_transport
from oarpy.modules.launcher.gpu_uses import GpuUses
from oarpy.modules.launcher.health_checks import NodeHealth
from oarpy.modules.launcher.loads import NodeLoads
from oarpy.modules.launcher.parts import Part, Round
from oarpy.modules.launcher.recording import Recording
from oarpy.modules.launcher.restored_database import RestoredDatabase
from oarpy.modules.launcher.running.orders import Signalling, Walltimes
from oarpy.modules.launcher.running.resizing import Resizes
from oarpy.modules.launcher.running.suspending import Pauses
from oarpy.modules.launcher.scripts.hooks import Hooks
from oarpy.modules.launcher.settling import Settling
from oarpy.modules.launcher.specifications import JobHosts
from oarpy.modules.launcher.starting import PATIENCE, SentStarts, Starting
from oarpy.modules.launcher.strikes import Strikes
from oarpy.modules.loop.logging import job_ranges
from oarpy.modules.loop.module import Outcome
from oarpy.store.database import Connection
from oarpy.store.jobs import execution
from oarpy.store.jobs.execution import Agenda
from oarpy.store.platform import nodes, site
from oarpy.transport.agent.descriptors import allow_many
from oarpy.wire.messages import Check, Report

_NODE_SYNC_PERIOD = 1.0


class Launcher:
    """The module that holds the channels to all nodes. Its memory only saves repetitions."""

    name = "launcher"

    def __init__(
        self,
        configuration: Configuration,
        make_transport: TransportMaker = make_transport,
        node_sync_period: float = _NODE_SYNC_PERIOD,
        start_patience: float = PATIENCE,
    ) -> None:
        self.period = configuration.modules.launcher
        self._nodes = configuration.nodes
        self._make_transport = make_transport
        self._channels: Channels | None = None
        self._synced = -math.inf
        self._sync_period = node_sync_period
        self._hosts = JobHosts(configuration.jobs, configuration.negotiation.launcher_host)
        self._sent = SentStarts(self._hosts, start_patience)
        recalling, hooks = RestoredDatabase(), Hooks(configuration.jobs)
        signalling = Signalling(self._sent)
        self._parts: tuple[Part, ...] = (
            CallRequests(configuration.gateway.socket if configuration.gateway.calls else ""),
            recalling,
            Recording(
                configuration.jobs, Strikes(configuration.nodes.strikes), self._sent, recalling, hooks, signalling
            ),
            self._sent,
            hooks,
            Settling(configuration.jobs, hooks),
            Starting(configuration.jobs, self._hosts, self._sent, recalling, hooks),
            signalling,
            Walltimes(self._hosts),
            Pauses(configuration, self._hosts),
            Resizes(configuration.jobs, self._hosts, self._sent),
            *(make(configuration) for make in slices.things(slices.LAUNCHER_PARTS)),
            NodeLoads(),
            GpuUses(configuration.jobs),
            NodeHealth(configuration.nodes),
        )
        self._hears: dict[type[Report], list[Callable[[str, Any], None]]] = {}
        for part in self._parts:
            for kind, hear in part.hears().items():
                self._hears.setdefault(kind, []).append(hear)

    def files(self) -> Sequence[int]:
        """Return where reports of the nodes arrive, and ends of programs of the site."""
        if self._channels is None:
            return []
        return [self._channels.fileno(), *(file for part in self._parts for file in part.files())]

    def run_once(self, connection: Connection, now: datetime) -> Outcome:
        """One round: hear, record, act."""
        channels = self._open_channels(connection)
        next_sync = self._sync_nodes(connection, channels)
        turn = Round(connection, channels, now.timestamp())
        for node, report in channels.reports():
            for hear in self._hears.get(type(report), ()):
                hear(node, report)
        for part in self._parts:
            part.record(turn)
        agenda = execution.agenda(connection)
        if self._looks(agenda, turn.now):
            turn.attention = self._sent.placed(execution.live(connection, everything=False))
        for part in self._parts:
            part.act(turn, agenda)
        due = math.inf if agenda.due_in is None else max(agenda.due_in, 0.0)
        wait = min(channels.tend(), next_sync, due, *(part.wait() for part in self._parts))
        wake_at = time.time() + wait if agenda.noop_end is None else min(time.time() + wait, agenda.noop_end)
        started, ended = turn.started, turn.ended
        word = f"started {len(started)}, ended {len(ended)}" if started or ended else "nothing"
        named = {"started": job_ranges(started), "ended": job_ranges(ended)}
        return Outcome(word, wake_at=wake_at, pending=channels.any_pending, named=named)

    def close(self) -> None:
        """Send the messages that wait, and close the channels; jobs go on."""
        if self._channels is not None:
            self._channels.close()
            self._channels = None
        for part in self._parts:
            part.close()

    def _looks(self, agenda: Agenda, now: float) -> bool:
        """Tell whether this round reads the live jobs, which costs more than the question whether there is work."""
        over = agenda.noop_end is not None and agenda.noop_end <= now
        return agenda.settle or over or any(part.looks() for part in self._parts)

    def _open_channels(self, connection: Connection) -> Channels:
        if self._channels is None:
            allow_many()
            for part in self._parts:
                part.begin(connection)
            with connection.transaction():
                nodes.forget_lost_channels(connection)
                nodes.add_hosts(connection, self._hosts.hosts)
            self._channels = Channels(self._nodes, site.instance(connection), self._make_transport)
        return self._channels

    def _sync_nodes(self, connection: Connection, channels: Channels) -> float:
        """Match the channels to the nodes from time to time, and check unfit nodes; return the seconds to the next."""
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
        self._sent.unsure = True
        return math.inf
