"""How busy nodes are: each is asked once a minute, and what all answer is written down together."""

from __future__ import annotations

import time

from oarpy.modules.launcher.parts import Hears, Part, Round
from oarpy.store.jobs.execution import Agenda
from oarpy.store.platform.nodes import record_loads
from oarpy.wire.messages import ChannelLost, Load, Ready, TellLoad

_LOAD_PERIOD = 60.0
"""Seconds between two questions for the load of a node."""


class NodeLoads(Part):
    """Asks nodes for their load: when the channel opens, then once a minute; writes the answers in one statement.

    No round comes for that alone: those that the module makes anyhow are enough.
    """

    def __init__(self) -> None:
        self._ask_at = time.monotonic() + _LOAD_PERIOD
        self._opened: set[str] = set()
        """Nodes to be asked at once."""
        self._asked: set[str] = set()
        """Nodes that have not answered yet; nobody else is heard."""
        self._told: dict[str, Load] = {}

    def hears(self) -> Hears:
        """The method for each report that is heard here."""
        return {Ready: self._open, ChannelLost: self._lose, Load: self._note}

    def act(self, turn: Round, agenda: Agenda) -> None:
        """Write down what was told when all have answered, or have had a minute; ask who is to be asked."""
        due = time.monotonic() >= self._ask_at
        if self._told and (due or not self._asked):
            with turn.connection.transaction():
                loads = [(node, told.average, told.available_memory, told.uptime) for node, told in self._told.items()]
                record_loads(turn.connection, loads)
            self._told = {}
        if due:
            self._ask_at = time.monotonic() + _LOAD_PERIOD
            self._asked = set()
        wanted = turn.channels.names if due else self._opened
        if wanted:
            self._asked.update(node for node in wanted if turn.channels.send(node, TellLoad()))
            self._opened = set()

    def _open(self, node: str, _report: Ready) -> None:
        self._opened.add(node)

    def _lose(self, node: str, _report: ChannelLost) -> None:
        self._opened.discard(node)
        self._asked.discard(node)

    def _note(self, node: str, report: Load) -> None:
        if node in self._asked:
            self._asked.remove(node)
            self._told[node] = report
