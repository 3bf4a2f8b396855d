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
from oarpy.store.platform.health import NodeChannel, NodeGpus
from oarpy.transport.probing import NodeProbe, ProbeReport, probe

_OLDEST_PYTHON = (3, 9)


def nodes(connection: Connection, configuration: Configuration) -> Iterator[Finding]:
    """Log in on every node that should be there, and yield its faults; nothing is changed there."""
    settings = configuration.nodes
    try:
        config = channel_config(settings, "doctor")
    except UsageError:
        return  # the check of the configuration reports it
    channels = health.channels(connection)
    probes = probe([node_address(reached.node, settings) for reached in channels], config, ssh_config(settings))
    described = health.gpus(connection)
    for channel in channels:
        probed, name = probes[channel.node.name], channel.node.name
        yield from _node(channel, probed)
        if probed.report is not None:
            if config.private_directories and probed.report.lack_of_privacy:
                yield _shared_directories(name, probed.report.lack_of_privacy)
            if config.limit_swap and probed.report.lack_of_swap_limits:
                yield _unlimited_swap(name, probed.report.lack_of_swap_limits)
            yield from _gpus(
                name, probed.report, described.get(name, NodeGpus([], [])), walls=bool(config.device_rules)
            )
    for gpu, places in health.shared_gpus(connection):
        what = f"gpu {gpu} is one GPU on {len(places)} nodes ({', '.join(places[:3])}): one job at a time gets it"
        todo = "oarnodesetting -p gpu=NUMBER gives each GPU of the cluster its own; gpudevice is the number on its node"
        yield Finding("gpus", what, todo)


def _shared_directories(name: str, lack: str) -> Finding:
    what = f"jobs of {name} have no directories of their own: {lack}"
    todo = "see 'Directories of a job's own' in the guide for admins; nodes.private_directories = [] is without"
    return Finding("nodes", what, todo)


def _unlimited_swap(name: str, lack: str) -> Finding:
    what = f"jobs of {name} may have any amount of swap: {lack}"
    return Finding("nodes", what, "nodes.limit_swap = false, or swapoff there; old kernels want swapaccount=1")


def _gpus(name: str, report: ProbeReport, described: NodeGpus, *, walls: bool) -> Iterator[Finding]:
    """Yield faults of a node's GPUs: in their numbers, and in the walls that keep jobs from other jobs' GPUs."""
    if described.unnumbered:
        what = (
            f"gpu {', '.join(described.unnumbered[:8])} of {name} have no gpudevice: jobs see, and open, all GPUs there"
        )
        yield Finding("gpus", what, "oarnodesetting -p gpudevice=0 (1, 2, ...) says which number each has on its node")
    absent = [number for number in described.devices if not 0 <= number < len(report.gpus)]
    if report.gpus and absent:
        what = f"{name} has {len(report.gpus)} GPUs, numbered from 0, and resources with gpudevice {absent[0]}"
        yield Finding("gpus", what, "oarnodesetting -p gpudevice=NUMBER: each node counts its own")
    if report.gpus and walls and report.lack_of_walls:
        what = f"nothing keeps jobs of {name} from the GPUs of others: {report.lack_of_walls}"
        yield Finding(
            "gpus", what, "see 'Walls around devices' in the guide for admins; nodes.device_rules = [] is without"
        )


def _node(channel: NodeChannel, probed: NodeProbe) -> Iterator[Finding]:
    name = channel.node.name
    if probed.report is None:
        what = probed.error if name in probed.error else f"{name}: {probed.error}"
        yield Finding("nodes", what, f"once it answers: oarpy doctor; oarnodesetting -h {name} -m on meanwhile")
        return
    report = probed.report
    yield from database_health.clock(f"node {name}", probed.clock_offset())
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
