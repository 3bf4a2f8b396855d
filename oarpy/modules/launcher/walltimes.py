"""Telling nodes the walltimes of running jobs that changed, until each has answered."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from oarpy.modules.launcher.channels import Channels
from oarpy.modules.launcher.places import Places
from oarpy.store import walltime_changes
from oarpy.store.database import Connection
from oarpy.transport.jobspec import JobKey
from oarpy.transport.messages import ChangeWalltime, Report, WalltimeChanged

_REPEAT = 10.0


@dataclass(slots=True)
class Walltimes:
    """What was said to whom, and when. Forgetting it only repeats it: a walltime counts from the start of its job."""

    places: Places
    said: dict[JobKey, tuple[int, str, float]] = field(default_factory=dict)

    def tell(self, connection: Connection, channels: Channels) -> None:
        """Tell the nodes that do not know; jobs that no node ends need no telling."""
        rows = walltime_changes.untold(connection)
        if not rows:
            self.said.clear()
            return
        moment = time.monotonic()
        placed = [(row.job, self.places.of(row.types, () if row.head is None else (row.head,))) for row in rows]
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

    def record(self, connection: Connection, answers: Iterable[tuple[str, Report]]) -> None:
        """Note which nodes have taken what was said to them; what others say does not count."""
        taken = [
            (report.key.job, report.key.attempt, report.seconds)
            for node, report in answers
            if isinstance(report, WalltimeChanged)
            and self.said.get(report.key, (0, "", 0.0))[:2] == (report.seconds, node)
        ]
        walltime_changes.told(connection, taken)

    def lost(self, node: str) -> None:
        """Say again what was on its way when a channel was lost."""
        self.said = {key: said for key, said in self.said.items() if said[1] != node}
