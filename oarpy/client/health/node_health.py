"""The nodes: whether each is reached as the server reaches it, its clock, its disk, its Python."""

from __future__ import annotations

from collections.abc import Iterator

from oarpy.client.health import database_health
from oarpy.client.health.finding import Finding
from oarpy.client.health.server_health import is_full
from oarpy.configuration import Configuration
from oarpy.model.errors import UsageError
from oarpy.modules.launcher.addresses import channel_config, node_address, ssh_config
from oarpy.store.database import Connection
from oarpy.store.platform import health
from oarpy.store.platform.health import NodeChannel
from oarpy.transport.probing import NodeProbe, probe

_OLDEST_PYTHON = (3, 9)


def nodes(connection: Connection, configuration: Configuration) -> Iterator[Finding]:
    """Log in on every node that is to be there, and yield what is wrong; nothing is changed there."""
    settings = configuration.nodes
    try:
        config = channel_config(settings, "doctor")
    except UsageError:
        return  # told by the check of the configuration
    found = health.channels(connection)
    probes = probe([node_address(one.node, settings) for one in found], config, ssh_config(settings))
    for one in found:
        yield from _node(one, probes[one.node.name])


def _node(channel: NodeChannel, found: NodeProbe) -> Iterator[Finding]:
    name = channel.node.name
    if found.report is None:
        what = found.error if name in found.error else f"{name}: {found.error}"
        yield Finding("nodes", what, f"once it answers: oarpy doctor; oarnodesetting -h {name} -m on meanwhile")
        return
    report = found.report
    yield from database_health.clock(f"node {name}", found.clock_offset())
    if report.python < _OLDEST_PYTHON:
        version = ".".join(map(str, report.python))
        yield Finding("nodes", f"{name} has Python {version}", "nodes.python names one that is 3.9 or newer")
    if not report.disk.writable:
        yield Finding("nodes", f"{report.disk.path} of {name} cannot be written", "correct nodes.state_directory there")
    if is_full(report.disk.free, report.disk.size):
        what = f"{report.disk.free >> 20} MiB are free at {report.disk.path} of {name}"
        yield Finding("disk", what, "make room: no job starts there when it is full")
    if channel.node.channel == "lost":
        what = f"{name} answers, and the launcher has lost it: {channel.message}"
        yield Finding("nodes", what, "it tries again every few seconds; see its log")
    if channel.suspected is not None:
        what = f"{name} answers, and is Suspected for {channel.suspected:.0f} seconds"
        yield Finding("nodes", what, f"oarnodes {name} says why; oarnodesetting -h {name} -s Alive takes it back")
