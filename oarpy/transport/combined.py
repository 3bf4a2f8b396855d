"""One transport over nodes of every mode, with one inbox."""

from __future__ import annotations

from collections.abc import Mapping

from oarpy.model.errors import UsageError
from oarpy.transport.base import Transport
from oarpy.transport.inbox import Inbox
from oarpy.transport.messages import ChannelLost, Command
from oarpy.transport.node import NodeAddress, NodeMode


class CombinedTransport:
    """Passes each node to the transport of its mode; all of them share the inbox."""

    def __init__(self, inbox: Inbox, transports: Mapping[NodeMode, Transport]) -> None:
        for transport in transports.values():
            if transport.inbox is not inbox:
                raise UsageError("the transports to combine have different inboxes")
        self._inbox = inbox
        self._transports = dict(transports)
        self._by_node: dict[str, Transport] = {}

    @property
    def inbox(self) -> Inbox:
        """Where messages arrive."""
        return self._inbox

    def connect(self, node: NodeAddress) -> None:
        """Begin to open a channel; a mode that is not configured is reported like a node that cannot be reached."""
        transport = self._transports.get(node.mode)
        before = self._by_node.get(node.name)
        if before is not None and before is not transport:
            before.disconnect(node.name)
        if transport is None:
            self._inbox.put(node.name, [ChannelLost(f"node {node.name}: mode '{node.mode}' is not configured")])
            return
        self._by_node[node.name] = transport
        transport.connect(node)

    def connected(self, name: str) -> bool:
        """Whether the channel of a node is open."""
        transport = self._by_node.get(name)
        return transport is not None and transport.connected(name)

    def send(self, name: str, command: Command) -> bool:
        """Queue a command for a node."""
        transport = self._by_node.get(name)
        return transport is not None and transport.send(name, command)

    def disconnect(self, name: str) -> None:
        """Close the channel of a node."""
        transport = self._by_node.pop(name, None)
        if transport is not None:
            transport.disconnect(name)

    def close(self) -> None:
        """Close all channels of all modes."""
        for transport in self._transports.values():
            transport.close()
