"""Passing on to the gateway that commands on nodes want to be connected; nothing waits for it."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from oarpy.frontend.prefaces import Knock
from oarpy.transport.messages import Knocked, Report

_MOST = 128
"""Knocks passed on in one round. Who is not among them says that nobody came."""

_MOST_OF_NODE = 16
"""Those of one node: one where too many knock takes no place of the others."""


class Knocks:
    """``gateway`` is the path of its socket, empty when there is none."""

    def __init__(self, gateway: str) -> None:
        self._gateway = gateway

    def pass_on(self, reports: Sequence[tuple[str, Report]]) -> list[tuple[str, Report]]:
        """Tell the gateway of the knocks among ``reports``; return the others."""
        knocks = [Knock(node, report.token) for node, report in reports if isinstance(report, Knocked)]
        if not knocks:
            return list(reports)
        if self._gateway:
            of_node: Counter[str] = Counter()
            for knock in dict.fromkeys(knocks):
                of_node[knock.node] += 1
                if of_node[knock.node] <= _MOST_OF_NODE and of_node.total() <= _MOST:
                    self._tell(knock)
        return [(node, report) for node, report in reports if not isinstance(report, Knocked)]

    def _tell(self, knock: Knock) -> None:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as connection:
            connection.connect(self._gateway)
            connection.send(knock.pack())
