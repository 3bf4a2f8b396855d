"""Whether nodes are fit for jobs, as a program of the site finds there."""

from __future__ import annotations

import math
import time

from oarpy.configuration import Nodes
from oarpy.modules.launcher.parts import Hears, Part, Round
from oarpy.store.jobs.execution import Agenda
from oarpy.store.platform import nodes
from oarpy.wire.messages import ChannelLost, CheckHealth, Cleaned, Ended, Health, Ready

UNHEALTHY = "HEALTH_CHECK"
"""Type of the event of a node whose check failed."""
_SOON = 60.0
"""Seconds after a check before the next one, at least: where it failed, and between jobs."""


class NodeHealth(Part):
    """Has nodes run ``nodes.health_check``: when their channel opens, after jobs, and every ``health_interval`` s.

    A node where it fails is suspected with the words of the program. It says itself when that is over, as of other
    faults that it can tell the end of.
    """

    def __init__(self, settings: Nodes) -> None:
        self._order = CheckHealth(settings.health_check, settings.health_timeout)
        self._period = settings.health_interval
        self._due: dict[str, float] = {}
        """When to ask each node, by the monotonic clock; infinity: it is asked."""
        self._last: dict[str, float] = {}
        self._failed: dict[str, str] = {}

    def hears(self) -> Hears:
        """The method for each report that is heard here."""
        return {
            Ready: self._open,
            ChannelLost: self._lose,
            Ended: self._note_end,
            Cleaned: self._note_end,
            Health: self._note,
        }

    def record(self, turn: Round) -> None:
        """Suspect the nodes whose check failed."""
        if self._failed:
            faults = [nodes.Fault(node, UNHEALTHY, 0, text[:500], heals=True) for node, text in self._failed.items()]
            with turn.connection.transaction():
                nodes.blame(turn.connection, faults)
            self._failed = {}

    def act(self, turn: Round, agenda: Agenda) -> None:
        """Ask the nodes that are due; without a program, to forget what one has found."""
        now = time.monotonic()
        for node in [node for node, due in self._due.items() if due <= now]:
            self._due[node] = math.inf
            turn.channels.send(node, self._order)  # who is not there is asked when its channel opens

    def wait(self) -> float:
        """Return when the next node is to be asked."""
        return max(0.0, min(self._due.values(), default=math.inf) - time.monotonic())

    def _open(self, node: str, _report: Ready) -> None:
        self._due[node] = time.monotonic()

    def _lose(self, node: str, _report: ChannelLost) -> None:
        self._due.pop(node, None)

    def _note_end(self, node: str, _report: Ended | Cleaned) -> None:
        """Have a node checked soon on which a job has ended: on its first node, and on the others."""
        if self._order.program and self._due.get(node, math.inf) < math.inf:
            self._due[node] = min(self._due[node], self._last.get(node, -math.inf) + _SOON)

    def _note(self, node: str, report: Health) -> None:
        now = self._last[node] = time.monotonic()
        self._due[node] = now + (min(self._period, _SOON) if report.problem else self._period)
        if report.problem:
            self._failed[node] = report.problem
