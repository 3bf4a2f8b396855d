"""The load of nodes, and their numbers of GPUs: the answers of all nodes are written together."""

from __future__ import annotations

import time

from oarpy.modules.launcher.parts import Hears, Part, Round
from oarpy.store.jobs.execution import Agenda
from oarpy.store.platform.nodes import record_gpus, record_loads
from oarpy.wire.messages import ChannelLost, Gpus, Load, Ready, TellGpus, TellLoad

_LOAD_PERIOD = 60.0
"""Seconds between two questions for the load of a node."""


class NodeLoads(Part):
    """Asks nodes for their load: when the channel opens, then once a minute; writes the answers in one statement.

    A node is asked for its GPUs when its channel opens, and only then.

    The loads cause no round of their own: the rounds of the module are enough.
    """

    def __init__(self) -> None:
        self._ask_at = time.monotonic() + _LOAD_PERIOD
        self._opened: set[str] = set()
        """Nodes to be asked at once."""
        self._asked: set[str] = set()
        """Nodes that have not answered yet; reports of other nodes are ignored."""
        self._told: dict[str, Load] = {}
        self._gpus: dict[str, int] = {}
        """Reports of nodes on their GPUs that are not written yet."""

    def hears(self) -> Hears:
        """The method for each report that is taken here."""
        return {Ready: self._open, ChannelLost: self._lose, Load: self._note, Gpus: self._note_gpus}

    def act(self, turn: Round, agenda: Agenda) -> None:
        """Write the answers once all nodes have answered, or have had a minute.

        Then ask again the nodes that are due.
        """
        due = time.monotonic() >= self._ask_at
        if self._told and (due or not self._asked):
            with turn.connection.transaction():
                loads = [(node, load.average, load.available_memory, load.uptime) for node, load in self._told.items()]
                record_loads(turn.connection, loads)
            self._told = {}
        if self._gpus:
            with turn.connection.transaction():
                record_gpus(turn.connection, self._gpus)
            self._gpus = {}
        if due:
            self._ask_at = time.monotonic() + _LOAD_PERIOD
            self._asked = set()
        wanted = turn.channels.names if due else self._opened
        if wanted:
            self._asked.update(node for node in wanted if turn.channels.send(node, TellLoad()))
            for node in self._opened & self._asked:
                turn.channels.send(node, TellGpus())
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

    def _note_gpus(self, node: str, report: Gpus) -> None:
        self._gpus[node] = report.number
