"""How nodes are reached, from the settings and the rows of nodes."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path

from oarpy import configuration
from oarpy.model.errors import UsageError
from oarpy.model.setting_values import read_device_rules
from oarpy.store.platform.nodes import NodeRow
from oarpy.transport.node import ChannelConfig, NodeAddress, NodeMode, SshConfig

_ISOLATION = ("auto", "cgroup", "affinity", "none")
_FEWEST_PROCESSES = 4


def node_address(row: NodeRow, settings: configuration.Nodes) -> NodeAddress:
    """Return where the agent of a node is started and keeps its state."""
    root = Path(settings.state_directory)
    return NodeAddress(
        name=row.name,
        # Local nodes share a machine, so each has a folder of its own; over SSH the machine is the node.
        state_directory=str(root / row.name),
        mode=NodeMode(row.transport),
        address=row.host or row.name,
        port=row.port or settings.port,
        python=sys.executable if row.transport == NodeMode.LOCAL else settings.python,
    )


def channel_config(settings: configuration.Nodes, instance: str) -> ChannelConfig:
    """Return how channels behave; ``instance`` is the installation's name. Raises :class:`UsageError`."""
    if settings.isolation not in _ISOLATION:
        raise UsageError(f"nodes.isolation is '{settings.isolation}'", hint="one of " + ", ".join(_ISOLATION))
    if 0 < settings.pids_limit < _FEWEST_PROCESSES:
        problem = f"nodes.pids_limit is {settings.pids_limit}"
        raise UsageError(problem, hint=f"0 for no limit, or at least {_FEWEST_PROCESSES}, which a start takes")
    return ChannelConfig(
        instance=instance,
        connect_timeout=settings.connect_timeout,
        ping_period=settings.ping_interval,
        silence_timeout=settings.ping_interval * 3,
        isolation=settings.isolation,
        machine_root=settings.machine_root,
        device_rules=read_device_rules(settings.device_rules),
        pids_limit=settings.pids_limit,
        pam_service=settings.pam_service,
        limit_swap=settings.limit_swap,
        private_directories=settings.private_directories,
        log_ins=settings.log_ins,
        kill_patience=settings.kill_patience,
        start_patience=settings.start_patience,
    )


def confines(node: NodeAddress, settings: configuration.Nodes) -> bool:
    """Tell whether jobs keep to their processors there: not on local nodes, which share a machine, unless asked."""
    return node.mode is not NodeMode.LOCAL or settings.isolation in ("cgroup", "affinity")


def ssh_config(settings: configuration.Nodes) -> SshConfig:
    """Return how the server logs in on nodes."""
    return SshConfig(
        user=settings.user or getpass.getuser(),
        key_file=settings.key_file,
        known_hosts=settings.known_hosts,
        keepalive=settings.ping_interval,
    )
