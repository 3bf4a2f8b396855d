"""Orders to nodes about jobs that go on or are to end there: kills, signals, changed walltimes.

Kills and signals go to every node of a job: to the first one and to the nodes where it may have processes too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from oarpy.model.job_types import read_types
from oarpy.model.states import JobState
from oarpy.modules.launcher.channels import Channels
from oarpy.modules.launcher.parts import Hears, Part, Round
from oarpy.modules.launcher.specifications import JobHosts
from oarpy.modules.launcher.starting import SentStarts
from oarpy.store.database import Connection
from oarpy.store.jobs import execution, walltime_changes
from oarpy.store.jobs.execution import Agenda, LiveRow, SignalRow
from oarpy.store.jobs.kill_requests import in_words
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import ChangeWalltime, ChannelLost, Kill, Ready, Signal, Terminate, WalltimeChanged

_REPEAT = 10.0


@dataclass(slots=True)
class Signalling(Part):
    """Kills and signals that were sent, by job and by request. A part that forgets them only repeats them."""

    sent: SentStarts
    killed: dict[JobKey, tuple[str, float]] = field(default_factory=dict)
    signalled: dict[int, set[str]] = field(default_factory=dict)

    def act(self, turn: Round, agenda: Agenda) -> None:
        """Send kills, then signals."""
        self._kill(turn.channels, turn.attention)
        if agenda.signal:
            self._signal(turn.connection, turn.channels)

    def _kill(self, channels: Channels, attention: Iterable[LiveRow]) -> None:
        """Have the first node of each job that is to be killed end it; the other nodes begin at the same time."""
        moment = time.monotonic()
        for row in attention:
            key = JobKey(row.id, row.attempt)
            if row.kill_reason is None or row.state == JobState.FINISHING or not row.nodes:
                continue
            if read_types(row.types).runs_nothing:
                continue
            _, last = self.killed.get(key, ("", -math.inf))
            if moment - last >= _REPEAT and channels.send(row.nodes[0], Kill((key,), None, in_words(row.kill_reason))):
                self.killed[key] = row.nodes[0], moment
                for node in row.nodes[1:]:
                    channels.send(node, Terminate((key,)))

    def _signal(self, connection: Connection, channels: Channels) -> None:
        """Send signals, then note them: killed in between, the launcher sends one again rather than never.

        A request is open until each of the job's nodes has been sent the signal, or the job is over.
        """
        wanted = execution.signals(connection)
        self.signalled = {signal.request: self.signalled.get(signal.request, set()) for signal in wanted}
        live = execution.live_among(connection, [signal.job for signal in wanted]) if wanted else []
        nodes = {row.id: row.nodes for row in self.sent.placed(live)}
        sent = [signal for signal in wanted if signal.job in nodes and self._send(signal, nodes[signal.job], channels)]
        with connection.transaction():
            execution.signals_done(connection, sent)

    def _send(self, row: SignalRow, nodes: Sequence[str], channels: Channels) -> bool:
        """Send a signal to the nodes that have not got it; return whether all of them have now."""
        wanted = nodes[1:] if row.elsewhere else nodes
        sent = self.signalled[row.request]
        for node in wanted:
            if node not in sent and channels.send(node, Signal((JobKey(row.job, row.attempt),), row.signal)):
                sent.add(node)
        return sent.issuperset(wanted)

    def over(self, keys: Iterable[JobKey]) -> None:
        """Forget jobs that have ended."""
        for key in keys:
            self.killed.pop(key, None)

    def hears(self) -> Hears:
        """Return the method for each report that is taken here."""
        return {Ready: self._lose, ChannelLost: self._lose}

    def _lose(self, node: str, _report: Ready | ChannelLost) -> None:
        """Repeat the kills on their way to a first node whose channel was lost."""
        self.killed = {key: kill for key, kill in self.killed.items() if kill[0] != node}


@dataclass(slots=True)
class Walltimes(Part):
    """The walltimes that nodes know.

    Forgetting them only repeats messages: a walltime counts from the start of its job.
    """

    hosts: JobHosts
    said: dict[JobKey, tuple[int, str, float]] = field(default_factory=dict)
    taken: dict[JobKey, int] = field(default_factory=dict)
    """Walltimes (seconds) that nodes have taken and that are not recorded yet."""

    def act(self, turn: Round, agenda: Agenda) -> None:
        """Send nodes the orders that they do not have yet."""
        if agenda.walltimes or self.said:
            self._tell(turn.connection, turn.channels)

    def _tell(self, connection: Connection, channels: Channels) -> None:
        """Record which nodes know, and tell the others; jobs that no node ends need no telling."""
        if self.taken:
            with connection.transaction():
                walltime_changes.told(connection, [(*key, seconds) for key, seconds in self.taken.items()])
            self.taken.clear()
        rows = walltime_changes.untold(connection)
        if not rows:
            self.said.clear()
            walltime_changes.tell_no_more(connection)
            return
        moment = time.monotonic()
        placed = [(row.job, self.hosts.of(row.types, () if row.head is None else (row.head,))) for row in rows]
        heads = {job: nodes[0] for job, nodes in placed if nodes}
        here = [row for row in rows if row.job not in heads]
        if here:
            with connection.transaction():
                walltime_changes.told(connection, [(row.job, row.attempt, row.walltime) for row in here])
        for row in rows:
            if row.job not in heads:
                continue
            key, head = JobKey(row.job, row.attempt), heads[row.job]
            seconds, _, last = self.said.get(key, (0, "", -math.inf))
            if (seconds != row.walltime or moment - last >= _REPEAT) and channels.send(
                head, ChangeWalltime((key,), row.walltime)
            ):
                self.said[key] = row.walltime, head, moment

    def hears(self) -> Hears:
        """Return the method for each report that is taken here."""
        return {WalltimeChanged: self._answered, Ready: self._lose, ChannelLost: self._lose}

    def _answered(self, node: str, report: WalltimeChanged) -> None:
        """Note that a node has taken its walltime; answers of other nodes do not count."""
        if self.said.get(report.key, (0, "", 0.0))[:2] == (report.seconds, node):
            self.taken[report.key] = report.seconds

    def _lose(self, node: str, _report: Ready | ChannelLost) -> None:
        """Repeat the walltimes on their way when a channel was lost."""
        self.said = {key: walltime for key, walltime in self.said.items() if walltime[1] != node}
