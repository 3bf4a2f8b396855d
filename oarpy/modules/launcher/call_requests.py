"""Passing call requests on to the gateway: commands on nodes want to be connected. Nothing waits for it."""

from __future__ import annotations

import socket
from collections import Counter
from contextlib import suppress

from oarpy.modules.launcher.parts import Hears, Part, Round
from oarpy.wire.messages import Knocked
from oarpy.wire.openings import Knock

_MOST = 128
"""Knocks passed on in one round. A command whose knock is left out says that nobody came."""

_MOST_OF_NODE = 16
"""Knocks of one node: a node with too many knocks takes no place of the others."""


class CallRequests(Part):
    """The call requests of this round. ``gateway`` is the path of its socket, empty when there is none."""

    def __init__(self, gateway: str) -> None:
        self._gateway = gateway
        self._heard: dict[Knock, None] = {}

    def hears(self) -> Hears:
        """Return the method for each report that is taken here."""
        return {Knocked: self.note}

    def note(self, node: str, report: Knocked) -> None:
        """Take in a call request of a command on ``node``."""
        self._heard[Knock(node, report.token)] = None

    def record(self, turn: Round) -> None:
        """Pass on the call requests; none of them is kept."""
        self.pass_on()

    def pass_on(self) -> None:
        """Pass the call requests on to the gateway; too many are dropped."""
        knocks, self._heard = self._heard, {}
        of_node: Counter[str] = Counter()
        for knock in knocks if self._gateway else ():
            of_node[knock.node] += 1
            if of_node[knock.node] <= _MOST_OF_NODE and of_node.total() <= _MOST:
                self._tell(knock)

    def _tell(self, knock: Knock) -> None:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as connection:
            connection.connect(self._gateway)
            connection.send(knock.pack())
