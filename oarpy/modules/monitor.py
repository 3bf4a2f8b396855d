"""The monitor: suspects nodes that do not answer, takes them back, ends the jobs that are lost with them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import structlog

from oarpy.configuration import Configuration
from oarpy.modules.launcher.specifications import JobHosts
from oarpy.modules.loop.logging import job_ranges
from oarpy.modules.loop.module import Outcome
from oarpy.store import notifications
from oarpy.store.database import Connection
from oarpy.store.jobs import execution, requeueing
from oarpy.store.platform import nodes

log = structlog.get_logger()

_SLACK = 30.0
"""Seconds beyond the time that a node takes to end a job whose walltime is over."""


class Monitor:
    """Judges the notes of the launcher about channels; a node is silent only while a launcher listens to it."""

    name = "monitor"

    def __init__(self, configuration: Configuration) -> None:
        self._timeout = configuration.nodes.lost_timeout
        self._slack = configuration.jobs.kill_grace + configuration.nodes.kill_patience + _SLACK
        self._hosts = JobHosts(configuration.jobs)
        self.period = min(configuration.modules.monitor, max(self._timeout / 4, 0.5))

    def files(self) -> Sequence[int]:
        """Return nothing: notifications alone are a reason to run."""
        return ()

    def run_once(self, connection: Connection, now: datetime) -> Outcome:
        """Suspect and recover nodes, and end lost jobs, in one transaction."""
        with connection.transaction():
            back = nodes.recover(connection)
            suspected: list[str] = []
            lost: list[int] = []
            led = notifications.is_led(connection, "launcher")
            if led:
                suspected = nodes.suspect(connection, self._timeout)
                lost = self._end_stranded(connection, now)
            requeueing.unplace(connection, self._timeout, led=led)
            withdrawn = nodes.kill_on_withdrawn(connection)
            overdue = nodes.kill_overdue(connection, self._slack) if led else 0
        for node in suspected:
            log.warning("node suspected", node=node, silent_for=self._timeout)
        for node in back:
            log.info("node is back", node=node)
        if back or suspected or lost or withdrawn or overdue:
            word = f"suspected {len(suspected)}, back {len(back)}, jobs lost {len(lost)}"
            word += f", on withdrawn resources {withdrawn}, overdue {overdue}"
            return Outcome(word, named={"jobs_lost": job_ranges(lost)})
        return Outcome()

    def _end_stranded(self, connection: Connection, now: datetime) -> list[int]:
        """End jobs that lost their first node; have jobs killed that lost another node, where they can be reached."""
        ends: dict[int, execution.End] = {}
        kills: dict[int, str] = {}
        for job, node, is_head in nodes.stranded(connection, self._timeout, self._hosts.elsewhere):
            if is_head:
                message = f"node {node} was lost while the job was there"
                ends[job] = execution.End(job, "Error", None, None, now.timestamp(), "NODE_LOST", message)
            else:
                kills[job] = f"node {node} was lost"
        moved = execution.finish(connection, list(ends.values()))
        nodes.ask_kills(connection, [(job, reason) for job, reason in kills.items() if job not in ends])
        return moved
