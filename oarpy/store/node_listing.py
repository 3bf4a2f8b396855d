"""Nodes with what is known of their channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oarpy.store.database import Connection


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """A node: how it is reached and the state of its channel (``unknown``, ``connected`` or ``lost``)."""

    name: str
    transport: str
    host: str | None
    port: int | None
    channel: str
    message: str


_NODES = """
    SELECT network_address, transport, host, port, channel, channel_message
    FROM nodes WHERE network_address = ANY(%s) ORDER BY network_address
"""


def describe(connection: Connection, names: Sequence[str]) -> tuple[NodeDescription, ...]:
    """Return the nodes of these names."""
    return tuple(NodeDescription(*row) for row in connection.execute(_NODES, (list(names),)).fetchall())
