"""Kills and signals: every node of a job hears of them, the first one and those where it may have processes too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from oarpy.model.job_types import read_types
from oarpy.model.states import JobState
from oarpy.modules.launcher.channels import Channels
from oarpy.modules.launcher.reports import Hears
from oarpy.store.database import Connection
from oarpy.store.jobs import execution
from oarpy.store.jobs.execution import LiveRow, SignalRow
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import ChannelLost, Kill, Ready, Signal, Terminate

_REPEAT = 10.0

LiveRows = Callable[[Sequence[int]], Sequence[LiveRow]]
"""Returns those of some jobs that are on nodes, with the nodes where they have something."""


@dataclass(slots=True)
class Signalling:
    """What was sent, by job and by request. Forgetting it only repeats it."""

    killed: dict[JobKey, tuple[str, float]] = field(default_factory=dict)
    signalled: dict[int, set[str]] = field(default_factory=dict)

    def kill(self, channels: Channels, attention: Iterable[LiveRow]) -> None:
        """Have the first nodes of jobs that are to be killed end them; the other ones begin at the same time."""
        moment = time.monotonic()
        for row in attention:
            key = JobKey(row.id, row.attempt)
            if row.kill_reason is None or row.state == JobState.FINISHING or not row.nodes:
                continue
            if read_types(row.types).runs_nothing:
                continue
            _, last = self.killed.get(key, ("", float("-inf")))
            if moment - last >= _REPEAT and channels.send(row.nodes[0], Kill((key,), None, row.kill_reason)):
                self.killed[key] = row.nodes[0], moment
                for node in row.nodes[1:]:
                    channels.send(node, Terminate((key,)))

    def signal(self, connection: Connection, channels: Channels, live: LiveRows) -> None:
        """Send signals, then note them: killed in between, the launcher sends one again rather than never.

        A request is open until each of the job's nodes has been sent the signal, or the job is over.
        """
        wanted = execution.signals(connection)
        self.signalled = {one.request: self.signalled.get(one.request, set()) for one in wanted}
        if not wanted:
            return
        nodes = {row.id: row.nodes for row in live([one.job for one in wanted])}
        sent = [one for one in wanted if one.job in nodes and self._send(one, nodes[one.job], channels)]
        with connection.transaction():
            execution.signals_done(connection, sent)

    def _send(self, one: SignalRow, nodes: Sequence[str], channels: Channels) -> bool:
        """Send a signal to the nodes that have not got it; return whether all of them have now."""
        wanted = nodes[1:] if one.elsewhere else nodes
        sent = self.signalled[one.request]
        for node in wanted:
            if node not in sent and channels.send(node, Signal((JobKey(one.job, one.attempt),), one.signal)):
                sent.add(node)
        return sent.issuperset(wanted)

    def over(self, keys: Iterable[JobKey]) -> None:
        """Forget jobs that have ended."""
        for key in keys:
            self.killed.pop(key, None)

    def hears(self) -> Hears:
        """Return the method for each report that is heard here."""
        return {Ready: self._lose, ChannelLost: self._lose}

    def _lose(self, node: str, _report: Ready | ChannelLost) -> None:
        """Say again what was on its way to a first node when its channel was lost."""
        self.killed = {key: kill for key, kill in self.killed.items() if kill[0] != node}
