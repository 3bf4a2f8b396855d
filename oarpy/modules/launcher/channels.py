"""One persistent channel to every node, whatever carries it; channels that are lost are opened again, with back-off."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from oarpy import configuration
from oarpy.modules.launcher.addresses import channel_config, confines, node_address, ssh_config
from oarpy.store.platform.nodes import NodeRow
from oarpy.transport.base import Transport
from oarpy.transport.inbox import Inbox
from oarpy.transport.local import LocalTransport
from oarpy.transport.node import ChannelConfig, NodeAddress, NodeMode
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import ChannelLost, Command, Forget, Ready, Report

log = structlog.get_logger()

_FIRST_DELAY = 0.05
_DELAY_LIMIT = 5.0
_IDLE = 3600.0
_LEISURE = 0.5
"""Seconds for which a node may remember ended jobs longer than needed, so that one message forgets many jobs."""

TransportMaker = Callable[[NodeMode, configuration.Nodes, Inbox, ChannelConfig], Transport]
"""Makes the transport for the nodes of one mode; tests put in one without nodes."""


@dataclass(slots=True)
class _Node:
    address: NodeAddress
    incarnation: str = ""
    answered: bool = False
    lost: bool = False
    delay: float = 0.0
    retry_at: float | None = None
    forgettable: list[JobKey] = field(default_factory=list)


class Channels:
    """The launcher's connections: every command to a node and every report of one goes through here."""

    def __init__(self, settings: configuration.Nodes, instance: str, make_transport: TransportMaker) -> None:
        self._settings = settings
        self._make_transport = make_transport
        self._inbox = Inbox()
        self._config = channel_config(settings, instance)
        self._transports: dict[NodeMode, Transport] = {}
        self._nodes: dict[str, _Node] = {}
        self._forget_at: float | None = None

    def fileno(self) -> int:
        """Return a descriptor that is readable when something arrived."""
        return self._inbox.fileno()

    def sync(self, rows: Sequence[NodeRow]) -> list[str]:
        """Open channels to new and moved nodes.

        Close the channels of nodes that moved or are gone, and return these nodes.
        """
        wanted = {row.name: node_address(row, self._settings) for row in rows}
        closed = [name for name, node in self._nodes.items() if wanted.get(name) != node.address]
        for name in closed:
            self._send_forget(name)
            self._transport(self._nodes.pop(name).address.mode).disconnect(name)
        for name, address in wanted.items():
            if name not in self._nodes:
                self._nodes[name] = _Node(address)
                self._transport(address.mode).connect(address)
        return closed

    def reports(self) -> list[tuple[str, Report]]:
        """Take the reports that arrived, noting which channels opened and which were lost."""
        reports = [(name, report) for name, report in self._inbox.drain() if name in self._nodes]
        for name, report in reports:
            node = self._nodes[name]
            node.answered = True
            if isinstance(report, Ready):
                node.incarnation, node.delay, node.retry_at = report.incarnation, 0.0, None
                log.info("node connected", node=name)
                node.lost = False
            elif isinstance(report, ChannelLost):
                if not node.lost:  # one line in the log, however often the connection is tried
                    log.warning("node lost", node=name, reason=report.reason[:200])
                node.lost = True
                node.forgettable.clear()  # it tells of them again when the channel is open again
                node.delay = min(max(node.delay * 2, _FIRST_DELAY), _DELAY_LIMIT)
                node.retry_at = time.monotonic() + node.delay
        return reports

    def tend(self) -> float:
        """Reconnect lost channels that are due, and send overdue forgets to nodes.

        Return the seconds until the next action.
        """
        now = time.monotonic()
        wait = _IDLE
        if self._forget_at is not None and self._forget_at <= now:
            self._send_all_forgets()
        if self._forget_at is not None:
            wait = self._forget_at - now
        for node in self._nodes.values():
            if node.retry_at is None:
                continue
            if node.retry_at <= now:
                node.retry_at = None
                self._transport(node.address.mode).connect(node.address)
            else:
                wait = min(wait, node.retry_at - now)
        return wait

    def is_connected(self, name: str) -> bool:
        """Tell whether commands to a node have a channel to go through."""
        node = self._nodes.get(name)
        return node is not None and self._transport(node.address.mode).connected(name)

    def is_pending(self, name: str) -> bool:
        """Tell whether it is still unknown if a node can be reached: its channel was never open, nor lost."""
        node = self._nodes.get(name)
        return node is not None and not node.answered

    @property
    def any_pending(self) -> bool:
        """Whether the first try to connect is still open for some node."""
        return not all(node.answered for node in self._nodes.values())

    @property
    def takes_log_ins(self) -> bool:
        """Whether users may log in on the nodes of their jobs."""
        return self._settings.log_ins

    def confines(self, name: str) -> bool:
        """Tell whether jobs keep to their processors on a node."""
        return confines(self._nodes[name].address, self._settings)

    def incarnation(self, name: str) -> str:
        """Return the node's name for its present memory from when the channel opened."""
        return self._nodes[name].incarnation

    def send(self, name: str, command: Command) -> bool:
        """Hand a command to a node; False when there is no channel. True does not promise that it arrives."""
        node = self._nodes.get(name)
        if node is None:
            return False
        return self._transport(node.address.mode).send(name, command)

    @property
    def names(self) -> Sequence[str]:
        """The nodes that have a channel, or should."""
        return tuple(self._nodes)

    def forget(self, name: str, keys: Sequence[JobKey]) -> None:
        """Let a node forget jobs, a little later with others: every message wakes the node."""
        node = self._nodes.get(name)
        if node is not None:
            node.forgettable += keys
            self._forget_at = self._forget_at or time.monotonic() + _LEISURE

    def _send_forget(self, name: str) -> None:
        node = self._nodes[name]
        if node.forgettable:
            keys, node.forgettable = node.forgettable, []
            self._transport(node.address.mode).send(name, Forget(tuple(keys)))

    def _send_all_forgets(self) -> None:
        self._forget_at = None
        for name in self._nodes:
            self._send_forget(name)

    def close(self) -> None:
        """Close every channel; jobs go on."""
        self._send_all_forgets()
        for transport in self._transports.values():
            transport.close()
        self._inbox.close()

    def _transport(self, mode: NodeMode) -> Transport:
        if mode not in self._transports:
            self._transports[mode] = self._make_transport(mode, self._settings, self._inbox, self._config)
        return self._transports[mode]


def make_transport(mode: NodeMode, settings: configuration.Nodes, inbox: Inbox, config: ChannelConfig) -> Transport:
    """Return the transport to real nodes of ``mode``."""
    if mode is NodeMode.LOCAL:
        return LocalTransport(inbox, config)
    from oarpy.transport.ssh import SshTransport

    return SshTransport(inbox, config, ssh_config(settings))
