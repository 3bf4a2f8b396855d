"""``oaradmin resources``: a pattern becomes nodes and resources, in one transaction; unused ones are deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oarpy.client.platform import consumables
from oarpy.client.platform.consumables import Amounts
from oarpy.client.platform.properties import require_new
from oarpy.client.platform.property_values import parse_assignments, parse_value
from oarpy.client.platform.resource_selection import find
from oarpy.client.session import Session
from oarpy.model.errors import NotFound, OarpyError, Unreachable, UsageError
from oarpy.model.resource_pattern import PatternLevel, Row, expand, node_names, parse_pattern
from oarpy.modules.launcher.addresses import channel_config, node_address, ssh_config
from oarpy.store.platform import properties, resources
from oarpy.store.platform.nodes import NodeRow
from oarpy.store.platform.properties import Property
from oarpy.store.platform.resources import AddressRow, PropertyValue, ResourceScope
from oarpy.transport.probing import ProbedCore, ProbedGpu, ProbeReport
from oarpy.transport.probing import probe as probe_hosts


@dataclass(frozen=True, slots=True)
class Creation:
    """The admin's words. ``address`` and ``port`` may be sets, one value for each node in the pattern's order.

    ``probe`` are nodes that report their own parts, instead of a pattern.
    """

    pattern: str
    type: str = "default"
    transport: str | None = None
    address: str | None = None
    port: str | None = None
    assignments: tuple[str, ...] = ()
    probe: str = ""


@dataclass(frozen=True, slots=True)
class Planned:
    """Rows to insert, the type of each of their columns, columns that have to be made first, capacities to give."""

    kinds: Mapping[str, str]
    rows: Sequence[Mapping[str, PropertyValue]]
    new_columns: tuple[tuple[str, str], ...]
    nodes: tuple[AddressRow, ...]
    amounts: Amounts


def probe(session: Session, creation: Creation) -> ProbedNodes | None:
    """Ask the nodes of ``--probe`` for their parts; None when a pattern gives these."""
    session.require_admin("add resources")
    if not creation.pattern and not creation.probe:
        raise UsageError("nothing to add", hint="a pattern such as /host=node[1-4]/core={8}, or --probe NODES")
    if creation.pattern and creation.probe:
        raise UsageError("a pattern and --probe say the same thing", hint="give one of them")
    if not creation.probe:
        return None
    if creation.type != "default":
        raise UsageError(f"--probe makes resources of type default, not '{creation.type[:40]}'", hint="write a pattern")
    return probe_nodes(session, creation.probe, _ways(session, creation, node_names(creation.probe)))


def plan(session: Session, creation: Creation, probed: ProbedNodes | None = None) -> Planned:
    """Return the rows that :func:`create` would insert; raise the error in them. Only an admin may."""
    session.require_admin("add resources")
    if creation.transport not in (None, "local", "ssh"):
        raise UsageError(f"unknown transport '{creation.transport}'", hint="local or ssh")
    levels = probed.levels() if probed else parse_pattern(creation.pattern)
    known = {row.name: row for row in properties.properties(session.connection)}
    amounts, assignments = consumables.split(session, creation.assignments)
    values = parse_assignments(assignments, known)
    new_columns = _new_columns(session, levels, known)
    kinds = {**{name: row.kind for name, row in known.items()}, **dict(new_columns)}
    numbered = [level.name for level in levels if not level.names and kinds[level.name] == "integer"]
    highest = resources.highest(session.connection, [name for name in numbered if name in known])
    rows = [
        {**_typed(row, kinds), **values, "type": parse_value(creation.type, "text", "type")}
        for row in (probed.rows(highest) if probed else expand(levels, highest))
    ]
    _complete(rows, creation.type, kinds)
    _refuse_repeats(session, rows, creation.type)
    used = {name: kinds[name] for name in rows[0]}
    return Planned(used, rows, new_columns, _nodes(session, creation, rows), amounts)


def create(session: Session, creation: Creation, probed: ProbedNodes | None = None) -> tuple[Planned, tuple[int, ...]]:
    """Insert nodes, resources and the columns they need; return them with the ids of the resources."""
    with session.connection.transaction():
        resources.lock(session.connection)
        planned = plan(session, creation, probed)
        for name, kind in planned.new_columns:
            properties.add(session.connection, name, kind)
        resources.describe_nodes(session.connection, planned.nodes)
        added = resources.add(session.connection, planned.kinds, planned.rows)
        consumables.give(session, planned.amounts, added)
        return planned, added


def _new_columns(
    session: Session, levels: Sequence[PatternLevel], known: Mapping[str, Property]
) -> tuple[tuple[str, str], ...]:
    new = []
    for level in levels:
        if level.name not in known:
            if properties.column_exists(session.connection, level.name):
                raise UsageError(f"'{level.name}' is a column of oarpy itself, not a level", hint="choose another name")
            require_new(session, level.name)
            new.append((level.name, level.kind))
    return tuple(new)


def _typed(row: Row, kinds: Mapping[str, str]) -> dict[str, PropertyValue]:
    return {name: None if value is None else parse_value(str(value), kinds[name], name) for name, value in row.items()}


def _complete(rows: Sequence[dict[str, PropertyValue]], kind: str, kinds: Mapping[str, str]) -> None:
    """Fill in values that follow from others: node of a host, host of a node, places of a core and a GPU in their node.

    ``kinds`` has the existing properties: the host's may have been deleted, or be a number here.
    """
    places: Counter[PropertyValue] = Counter()
    gpus: dict[PropertyValue, list[PropertyValue]] = {}
    for row in rows:
        node = row.get("network_address") or row.get("host")
        if node is None and kind == "default":
            raise UsageError(
                "resources of type 'default' need a node", hint="begin with /host=node[1-4] or give another --type"
            )
        row["network_address"] = None if node is None else parse_value(str(node), "text", "network_address")
        if node is not None:
            if kinds.get("host") == "text":
                row.setdefault("host", node)
            row.setdefault("cpuset", places[node])
            places[node] += 1
            if "gpudevice" in kinds and "gpu" in row:
                known = gpus.setdefault(node, [])
                if row["gpu"] not in known:
                    known.append(row["gpu"])
                row.setdefault("gpudevice", known.index(row["gpu"]))


def _refuse_repeats(session: Session, rows: Sequence[Mapping[str, PropertyValue]], kind: str) -> None:
    """Refuse nodes that have resources of the type: running a command twice must not double the cluster."""
    nodes = tuple({str(row["network_address"]) for row in rows if row["network_address"] is not None})
    for resource in resources.resources(session.connection, ResourceScope(hosts=nodes)):
        if resource.type == kind:
            raise OarpyError(
                f"node '{resource.network_address}' has resources of type '{kind}' already",
                hint="nothing was added; oarnodesetting -a adds single resources",
            )


def _nodes(session: Session, creation: Creation, rows: Sequence[Mapping[str, PropertyValue]]) -> tuple[AddressRow, ...]:
    """Return how the nodes are reached: all nodes when an option says so, else only unknown ones."""
    names = list(dict.fromkeys(str(row["network_address"]) for row in rows if row["network_address"] is not None))
    return _ways(session, creation, names)


def _ways(session: Session, creation: Creation, names: Sequence[str]) -> tuple[AddressRow, ...]:
    addresses = _dealt(creation.address, names, "--address")
    ports = [None if port is None else _port(port) for port in _dealt(creation.port, names, "--port")]
    if creation.transport is None and creation.address is None and creation.port is None:
        old = resources.known_nodes(session.connection, names)
        return tuple(AddressRow(name, "ssh", None, None) for name in names if name not in old)
    transport = creation.transport or "ssh"
    return tuple(
        AddressRow(name, transport, address, port) for name, address, port in zip(names, addresses, ports, strict=True)
    )


def _dealt(text: str | None, names: Sequence[str], option: str) -> list[str | None]:
    """Return one value per node, from a single value or from as many values as nodes."""
    if text is None:
        return [None] * len(names)
    values = list(node_names(text if option == "--address" else _folded(text)))
    if len(values) not in (1, len(names)):
        raise UsageError(f"{option} gives {len(values)} values for {len(names)} nodes", hint="one, or one a node")
    return list(values * len(names) if len(values) == 1 else values)


def _folded(text: str) -> str:
    """Read ``2201-2204,2200`` as sets of these numbers, in the written order."""
    return text if "[" in text else ",".join(f"[{part}]" for part in text.split(","))


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) < 65536:
        raise UsageError(f"'{text[:20]}' is not a port", hint="a number from 1 to 65535")
    return int(text)


def delete(session: Session, ids: Sequence[str], hosts: Sequence[str], condition: str | None) -> tuple[int, ...]:
    """Remove resources that no job ever used, and their nodes when nothing is left there; return their ids."""
    session.require_admin("delete resources")
    if not ids and not hosts and condition is None:
        raise UsageError("no resource given", hint="give ids, --host or --sql")
    with session.connection.transaction():
        resources.lock(session.connection)
        chosen = tuple(row.resource_id for row in find(session, ids, hosts, condition))
        if not chosen:
            raise NotFound("no resource meets the condition", hint="oarnodes lists them")
        used = resources.used(session.connection, chosen)
        if used:
            raise OarpyError(
                f"resource {used[0]} has been used by jobs, so history needs it",
                hint="oarnodesetting -s Dead takes it out of service; nothing was deleted",
            )
        resources.delete(session.connection, chosen)
    return chosen


_COLUMNS = ("cpu", "core", "memnode", "threads")
_GPU_COLUMNS = ("gpu", "gpudevice")


@dataclass(frozen=True, slots=True)
class ProbedNodes:
    """The report of each node, by name, in the order in which the nodes were named."""

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
    """Return the GPU of each core: a close GPU if there is one, and of these the GPU with the fewest cores."""
    taken = [0] * len(gpus)
    chosen_gpus: list[int | None] = []
    for core in cores:
        close = [number for number, gpu in enumerate(gpus) if set(gpu.near) & set(core.threads)]
        chosen = min(close or range(len(gpus)), key=lambda number: (taken[number], number), default=None)
        if chosen is not None:
            taken[chosen] += 1
        chosen_gpus.append(chosen)
    return chosen_gpus


def probe_nodes(session: Session, hosts: str, addresses: Sequence[AddressRow]) -> ProbedNodes:
    """Ask nodes over the way on which the server reaches them; ``addresses`` has the ways of some of them.

    Raises :class:`Unreachable` for the first node that does not answer, :class:`OarpyError` for a node without cores.
    """
    session.require_admin("add resources")
    settings = session.configuration.nodes
    ways = {address.name: address for address in addresses}
    rows = []
    for name in node_names(hosts):
        way = ways.get(name, AddressRow(name, "ssh", None, None))
        rows.append(NodeRow(name, way.transport, way.host, way.port, "unknown"))
    nodes = [node_address(row, settings) for row in rows]
    probed = probe_hosts(nodes, channel_config(settings, "probe"), ssh_config(settings))
    reports: dict[str, ProbeReport] = {}
    for name, node_probe in probed.items():
        if node_probe.report is None:
            raise Unreachable(node_probe.error, hint="nothing was added; --probe needs every node that it names")
        if not node_probe.report.cores:
            raise OarpyError(f"node {name} does not tell its cores", hint="write a pattern: /host=.../core={4}")
        reports[name] = node_probe.report
    return ProbedNodes(reports)
