"""After a restore of the database: nodes report the jobs that it has lost, before any job is started.

::

    the database is another copy, or a node knows a higher job id --> a new generation: ids go on beyond the lost ones
    each node that is reached: Recall --> Recalled --> lost_jobs, an event; waiting jobs that began there are ended

If all this is forgotten, the nodes are only asked again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from oarpy.model.job_types import read_types
from oarpy.modules.launcher.channels import Channels
from oarpy.modules.launcher.parts import Hears, Part, Round
from oarpy.store import events
from oarpy.store.database import Connection
from oarpy.store.events import NewEvent
from oarpy.store.jobs import execution, kill_requests, lost_jobs
from oarpy.store.jobs.execution import LiveRow
from oarpy.store.jobs.lost_jobs import LateEnd, RememberedJob
from oarpy.store.platform import site
from oarpy.store.platform.site import Generation
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import ChannelLost, Ended, Ready, Recall, Recalled, RecalledJob

log = structlog.get_logger()

_PATIENCE = 30.0
"""Seconds for which a node that is connected is waited for."""
_FARTHEST = 10_000_000
"""The most by which a node's report may move job ids: a lying node must not use them up.

So it is believed once, too.
"""
_NAMED = 20
"""Job ids that an event names at most; the others are in the table."""


@dataclass(slots=True)
class RestoredDatabase(Part):
    """The present generation of the database, and the nodes that have not reported yet the jobs that it lost."""

    generation: int = 0
    owing: set[str] = field(default_factory=set)
    asked: dict[str, float] = field(default_factory=dict)
    """When (monotonic seconds) each node was asked."""
    highest: int = 0
    """The highest job id that the database is known to have given."""
    heard: dict[str, int] = field(default_factory=dict)
    believed: set[str] = field(default_factory=set)

    def begin(self, connection: Connection) -> None:
        """Check whether the database is still the one it was, and not a restored older one."""
        self._take(site.generation(connection))

    def _take(self, generation: Generation) -> None:
        self.generation = generation.number
        self.owing = set(generation.owing) if generation.number else set()
        self.asked.clear()

    def hears(self) -> Hears:
        """Return the method for each report that is taken here."""
        return {Ready: self._greeted, ChannelLost: self._lost}

    def _greeted(self, node: str, report: Ready) -> None:
        self.asked.pop(node, None)
        self.heard[node] = report.highest

    def _lost(self, node: str, _report: ChannelLost) -> None:
        self.asked.pop(node, None)

    def record(self, turn: Round) -> None:
        """Begin a generation when a node knows a job that the database never gave.

        Ask nodes that still owe a report.
        """
        connection, channels = turn.connection, turn.channels
        for node, job in self.heard.items():
            if job > self.highest:
                self.highest = site.highest_job(connection)
            if job > self.highest and node not in self.believed:
                self._believe(connection, node, job)
        self.heard.clear()
        since = None
        for node in sorted(self.owing - self.asked.keys()):
            if channels.is_connected(node):
                since = site.lost_from(connection) if since is None else since
                if channels.send(node, Recall(since)):
                    self.asked[node] = time.monotonic()

    def _believe(self, connection: Connection, node: str, job: int) -> None:
        """Take the database as restored, as a node knows a job that it has lost; not if the id is impossible."""
        self.believed.add(node)
        if job > self.highest + _FARTHEST:
            log.warning("a node claims a job id that cannot be", node=node, job=job, highest=self.highest)
            return
        why = f"node {node} knows job {job}, which the database has lost"
        self._take(site.generation_before(connection, job, why))
        self.highest = site.highest_job(connection)
        log.warning("the database was restored", node=node, job=job, generation=self.generation)

    def awaits(self, channels: Channels) -> bool:
        """Tell whether a node may still report jobs that must not be started again: it is reached, or may be."""
        limit = time.monotonic() - _PATIENCE
        return any(
            channels.is_pending(node) or (channels.is_connected(node) and self.asked.get(node, limit) >= limit)
            for node in self.owing
        )

    def remember(
        self, connection: Connection, recalled: Mapping[str, Recalled], current: Mapping[int, LiveRow]
    ) -> list[tuple[str, Ended]]:
        """Record the memory of nodes.

        Return the ends of live jobs that nodes reported while they could not be recorded.
        """
        known: list[tuple[str, Ended]] = []
        for node, report in recalled.items():
            if node not in self.owing:
                continue
            lost = lost_jobs.record(connection, node, self.generation, [_remembered(job) for job in report.jobs])
            self._tell(connection, node, [job for job in report.jobs if job.key in lost])
            known += [
                (node, Ended(job.key, job.status, job.reason, job.start, job.end))
                for job in report.jobs
                if job.end is not None and job.key not in lost and _is_live(job.key, node, current)
            ]
        return known

    def _tell(self, connection: Connection, node: str, lost: list[RecalledJob]) -> None:
        """Log the jobs that a node ran unknown to the database, and end jobs that must not run a second time."""
        if not lost:
            return
        begun = lost_jobs.begun(connection, node, [recalled.key.job for recalled in lost])
        unrepeatable = [(job.job, job.text) for job in begun if not read_types(job.types).idempotent]
        kill_requests.ask_once(connection, unrepeatable, "launcher")
        execution.cancel(connection, datetime.now(UTC))  # before any of them is launched
        numbers = sorted({recalled.key.job for recalled in lost})
        named = ", ".join(map(str, numbers[:_NAMED])) + (", ..." if len(numbers) > _NAMED else "")
        text = f"{len(numbers)} jobs ran here that the database has lost: {named} (oar_report.lost_jobs)"
        events.log(connection, [NewEvent("JOBS_LOST", text, hosts=(node,))])
        log.warning("jobs lost with the database", node=node, jobs=numbers[:_NAMED], count=len(numbers))

    def known(self, greeted: Mapping[str, Ready], recalled: Mapping[str, Recalled]) -> dict[str, set[JobKey]]:
        """Return the known jobs of each node. A node that still owes a report is left out until the report comes."""
        known = {node: {job.key for job in ready.jobs} for node, ready in greeted.items() if node not in self.owing}
        for node, report in recalled.items():
            if node in self.owing:
                known[node] = {job.key for job in report.jobs}
        return known

    def told(self, nodes: Iterable[str]) -> None:
        """Note that these nodes owe no report any more: it is recorded."""
        self.owing.difference_update(nodes)

    def note_ends(self, connection: Connection, ended: Iterable[tuple[str, Ended]]) -> None:
        """Record the ends of jobs that ran on when the database had lost them."""
        if self.generation:
            ends = [LateEnd(*report.key, node, report.end, report.status, report.reason) for node, report in ended]
            lost_jobs.note_ends(connection, ends)


def _remembered(job: RecalledJob) -> RememberedJob:
    return RememberedJob(*job.key, job.user, job.resources, job.start, job.end, job.status, job.reason)


def _is_live(key: JobKey, node: str, current: Mapping[int, LiveRow]) -> bool:
    row = current.get(key.job)
    return row is not None and row.attempt == key.attempt and row.nodes[:1] == (node,)
