"""Nodes that tell by themselves what they are made of: ``oaradmin resources add --probe``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oarpy.client.platform.resource_pattern import PatternLevel, Row, node_names
from oarpy.client.session import Session
from oarpy.model.errors import OarpyError, Unreachable
from oarpy.modules.launcher.addresses import channel_config, node_address, ssh_config
from oarpy.store.platform.nodes import NodeRow
from oarpy.store.platform.resources import AddressRow
from oarpy.transport.probing import ProbedCore, ProbedGpu, ProbeReport, probe

_COLUMNS = ("cpu", "core", "memnode", "threads")
_GPU_COLUMNS = ("gpu", "gpudevice")


@dataclass(frozen=True, slots=True)
class ProbedNodes:
    """What each node told, by name, in the order in which they were named."""

    reports: Mapping[str, ProbeReport]

    def levels(self) -> tuple[PatternLevel, ...]:
        """Return the columns that the rows have, hosts first."""
        names = tuple(self.reports)
        own = (*_COLUMNS, *_GPU_COLUMNS) if any(report.gpus for report in self.reports.values()) else _COLUMNS
        return (PatternLevel("host", len(names), names), *(PatternLevel(name, 1) for name in own))

    def rows(self, highest: Mapping[str, int]) -> list[Row]:
        """Return a row for each core; sockets, cores and GPUs are numbered after the highest in use."""
        rows: list[Row] = []
        last = {name: highest.get(name, 0) for name in ("cpu", "core", "gpu")}
        with_gpus = any(report.gpus for report in self.reports.values())
        for name, report in self.reports.items():
            sockets = {socket: last["cpu"] + 1 + n for n, socket in enumerate(sorted({c.socket for c in report.cores}))}
            devices = dealt(report.cores, report.gpus)
            for place, core in enumerate(report.cores):
                row: Row = {
                    "host": name,
                    "cpu": sockets[core.socket],
                    "core": last["core"] + 1 + place,
                    "memnode": report.memory,
                    "threads": len(core.threads),
                    "cpuset": min(core.threads),
                }
                if with_gpus:
                    device = devices[place]
                    row |= {"gpu": None if device is None else last["gpu"] + 1 + device, "gpudevice": device}
                rows.append(row)
            last["cpu"] += len(sockets)
            last["core"] += len(report.cores)
            last["gpu"] += len(report.gpus)
        return rows


def dealt(cores: Sequence[ProbedCore], gpus: Sequence[ProbedGpu]) -> list[int | None]:
    """Return the GPU of each core: one close to it if there is one, and of these the one with the fewest cores."""
    taken = [0] * len(gpus)
    found: list[int | None] = []
    for core in cores:
        close = [number for number, gpu in enumerate(gpus) if set(gpu.near) & set(core.threads)]
        chosen = min(close or range(len(gpus)), key=lambda number: (taken[number], number), default=None)
        if chosen is not None:
            taken[chosen] += 1
        found.append(chosen)
    return found


def probe_nodes(session: Session, hosts: str, addresses: Sequence[AddressRow]) -> ProbedNodes:
    """Ask nodes over the way on which the server reaches them; ``addresses`` says it for those that have one.

    Raises :class:`Unreachable` for the first that does not answer, :class:`OarpyError` for one that tells no core.
    """
    session.require_admin("add resources")
    settings = session.configuration.nodes
    ways = {one.name: one for one in addresses}
    rows = []
    for name in node_names(hosts):
        way = ways.get(name, AddressRow(name, "ssh", None, None))
        rows.append(NodeRow(name, way.transport, way.host, way.port, "unknown"))
    nodes = [node_address(row, settings) for row in rows]
    found = probe(nodes, channel_config(settings, "probe"), ssh_config(settings))
    reports: dict[str, ProbeReport] = {}
    for name, one in found.items():
        if one.report is None:
            raise Unreachable(one.error, hint="nothing was added; --probe needs every node that it names")
        if not one.report.cores:
            raise OarpyError(f"node {name} does not tell its cores", hint="write a pattern: /host=.../core={4}")
        reports[name] = one.report
    return ProbedNodes(reports)
