"""Telling nodes the walltimes of running jobs that changed, until each has answered."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from oarpy.modules.launcher.channels import Channels
from oarpy.modules.launcher.reports import Hears
from oarpy.modules.launcher.specifications import JobHosts
from oarpy.store.database import Connection
from oarpy.store.jobs import walltime_changes
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import ChangeWalltime, ChannelLost, Ready, WalltimeChanged

_REPEAT = 10.0


@dataclass(slots=True)
class Walltimes:
    """What was said to whom, and when. Forgetting it only repeats it: a walltime counts from the start of its job."""

    hosts: JobHosts
    said: dict[JobKey, tuple[int, str, float]] = field(default_factory=dict)
    taken: dict[JobKey, int] = field(default_factory=dict)
    """Walltimes (seconds) that nodes have taken and that are not recorded yet."""

    def tell(self, connection: Connection, channels: Channels) -> None:
        """Record which nodes know, and tell the others; jobs that no node ends need no telling."""
        if self.taken:
            with connection.transaction():
                walltime_changes.told(connection, [(*key, seconds) for key, seconds in self.taken.items()])
            self.taken.clear()
        rows = walltime_changes.untold(connection)
        if not rows:
            self.said.clear()
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
            seconds, _, last = self.said.get(key, (0, "", float("-inf")))
            if (seconds != row.walltime or moment - last >= _REPEAT) and channels.send(
                head, ChangeWalltime((key,), row.walltime)
            ):
                self.said[key] = row.walltime, head, moment

    def hears(self) -> Hears:
        """Return the method for each report that is heard here."""
        return {WalltimeChanged: self._answered, Ready: self._lose, ChannelLost: self._lose}

    def _answered(self, node: str, report: WalltimeChanged) -> None:
        """Take in that a node has taken what was said to it; what others say does not count."""
        if self.said.get(report.key, (0, "", 0.0))[:2] == (report.seconds, node):
            self.taken[report.key] = report.seconds

    def _lose(self, node: str, _report: Ready | ChannelLost) -> None:
        """Say again what was on its way when a channel was lost."""
        self.said = {key: said for key, said in self.said.items() if said[1] != node}
