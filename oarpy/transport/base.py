"""The interface for modules: a transport connects nodes and sends them commands; answers come to its inbox."""

from __future__ import annotations

from typing import Protocol

from oarpy.transport.inbox import Inbox
from oarpy.transport.node import NodeAddress
from oarpy.wire.messages import Command


class Transport(Protocol):
    """Connects to nodes. No method waits for a node; everything a node says arrives in ``inbox``."""

    @property
    def inbox(self) -> Inbox:
        """Where messages arrive, labelled with the node's name."""
        ...

    def connect(self, node: NodeAddress) -> None:
        """Begin to open a channel; ends with Ready or ChannelLost in the inbox. An open one is replaced."""
        ...

    def connected(self, name: str) -> bool:
        """Tell whether the channel of a node is open (Ready came, ChannelLost did not)."""
        ...

    def send(self, name: str, command: Command) -> bool:
        """Queue a command for a node; False when its channel is not open. True is no promise that it arrives."""
        ...

    def disconnect(self, name: str) -> None:
        """Close the channel of a node, without a ChannelLost. Jobs go on."""
        ...

    def close(self) -> None:
        """Close all channels. Jobs go on."""
        ...
