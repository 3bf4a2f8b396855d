"""The output of ``oarnodes``: resources by node, their states, the jobs on them, the events of nodes."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Container, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import TypedDict, TypeVar, cast

from oarpy.client.jobs.description import EventDocument, event_json, event_line
from oarpy.client.platform import maintenance
from oarpy.client.platform.consumables import shown as amount_text
from oarpy.client.platform.maintenance import MaintenanceDocument
from oarpy.client.platform.resource_text import properties_of, resource_json, shown, value_json
from oarpy.client.rendering import (
    GREEN,
    PLAIN,
    RED,
    YELLOW,
    Column,
    Look,
    Report,
    Table,
    TwoForms,
    ids_text,
    local_date,
    natural,
    one_line,
)
from oarpy.client.session import Session
from oarpy.model.durations import format_duration
from oarpy.model.errors import NotFound
from oarpy.store import events
from oarpy.store.platform import consumables, nodes, resources
from oarpy.store.platform.consumables import Capacity
from oarpy.store.platform.maintenance import WindowRow
from oarpy.store.platform.nodes import NodeDescription
from oarpy.store.platform.resources import PropertyValue, ResourceRow

LAST_EVENTS = 20
"""Events shown when no date is given."""

NO_NODE = ""
"""The node under which resources without one are listed."""

_IN_LINES = ("resource_id", "network_address", "state")


Value = TypeVar("Value")


class CapacityDocument(TypedDict):
    """The capacity of a consumable, and the part of it that jobs hold."""

    capacity: int
    held: int


class LoadDocument(TypedDict):
    """The report of a node at ``at`` (epoch seconds): load over a minute, free memory in MiB, uptime in seconds."""

    average: float | None
    available_memory: int | None
    uptime: int | None
    at: int


class _Standing(TypedDict):
    state_by: str
    state_since: int
    jobs: Sequence[int]
    consumables: Mapping[str, CapacityDocument]
    channel: str | None
    channel_message: str | None
    transport: str | None
    address: str | None
    port: int | None
    load: LoadDocument | None
    away_reason: str | None
    away_by: str | None
    away_since: int | None
    maintenance: Sequence[MaintenanceDocument]


class ResourceDocument(_Standing):
    """A resource: its properties, which a site adds to, and how it stands; times in epoch seconds."""

    resource_id: int
    type: str
    network_address: str | None
    state: str


class CountsDocument(TypedDict):
    """The number of nodes, of resources, and of the resources that jobs hold."""

    nodes: int
    resources: int
    held: int
    free: int


def full(session: Session, rows: Sequence[ResourceRow]) -> Report[dict[str, ResourceDocument]]:
    """Return everything on each resource, with the jobs that hold it, the channel to its node and its maintenance."""
    holders = resources.holders(session.connection, [row.resource_id for row in rows])
    names = sorted({row.network_address for row in rows if row.network_address is not None})
    stocks = _Stocks(session)
    described = {node.name: node for node in nodes.describe(session.connection, names)}
    windows = maintenance.windows_of(session)

    def data() -> dict[str, ResourceDocument]:
        return {
            str(row.resource_id): _resource_document(
                row,
                described.get(row.network_address or ""),
                holders.get(row.resource_id, ()),
                stocks.of(row),
                windows.get(row.network_address or "", ()),
            )
            for row in rows
        }

    def text() -> str:
        return "\n".join(
            _described(
                row,
                described.get(row.network_address or ""),
                holders.get(row.resource_id, ()),
                stocks.text(row),
                windows.get(row.network_address or "", ()),
            )
            for row in rows
        )

    return TwoForms(text, data)


def _resource_document(
    row: ResourceRow,
    node: NodeDescription | None,
    jobs: Sequence[int],
    stocks: Mapping[str, Capacity],
    windows: Sequence[WindowRow],
) -> ResourceDocument:
    standing: _Standing = {
        "state_by": row.state_by,
        "state_since": int(row.state_since),
        "jobs": jobs,
        "consumables": {
            name: {"capacity": capacity.capacity, "held": capacity.held} for name, capacity in stocks.items()
        },
        "channel": node.channel if node else None,
        "channel_message": node.message if node else None,
        "transport": node.transport if node else None,
        "address": (node.host or node.name) if node else None,
        "port": node.port if node else None,
        "load": _load_json(node),
        "away_reason": node.away_reason if node else None,
        "away_by": node.away_by if node else None,
        "away_since": int(node.away_since) if node and node.away_since else None,
        "maintenance": [maintenance.window_json(row) for row in windows],
    }
    # a TypedDict cannot say that a site adds properties
    return cast(ResourceDocument, {**resource_json(row), **standing})


def overview(session: Session, selected: Sequence[ResourceRow], seen: Look) -> str:
    """Return a line a node: its states, how many of its resources jobs hold, the jobs, its load, why it is away."""
    holders = resources.holders(session.connection, [row.resource_id for row in selected])
    windows = maintenance.windows_of(session)
    by_node: dict[str, list[ResourceRow]] = {}
    for row in selected:
        by_node.setdefault(row.network_address or NO_NODE, []).append(row)
    described = {node.name: node for node in nodes.describe(session.connection, sorted(filter(None, by_node)))}
    columns = (Column("Node"), Column("State", colour=_state_colour), Column("Held"), Column("Load"), Column("Jobs"))
    rows = []
    for name in sorted(by_node, key=natural):
        group, node = by_node[name], described.get(name)
        states = dict.fromkeys(state(resource, windows.get(name, ())) for resource in group)
        jobs = sorted({job for resource in group for job in holders.get(resource.resource_id, ())})
        held = sum(resource.resource_id in holders for resource in group)
        away = f": {_reason(node)}" if node and node.away_reason else ""
        load = f"{node.load_average:.2f}" if node and node.load_average is not None else ""
        named = ", ".join(map(str, jobs[:_MOST_JOBS])) + (", ..." if len(jobs) > _MOST_JOBS else "")
        rows.append((name or "(no node)", ", ".join(states) + away, f"{held}/{len(group)}", load, named))
    return Table(columns, tuple(rows)).text(seen)


_MOST_JOBS = 6


class _Stocks:
    """The stocks of consumables, read once."""

    def __init__(self, session: Session) -> None:
        self._consumables = consumables.consumables(session.connection)
        stocks = consumables.capacities(session.connection) if self._consumables else ()
        self._capacities = {(stock.consumable, stock.block): stock for stock in stocks}

    def of(self, resource: ResourceRow) -> dict[str, Capacity]:
        """Return, by consumable, the capacity of the block in which the resource lies."""
        values = properties_of(resource)
        places = {consumable.name: (consumable.name, str(values[consumable.level])) for consumable in self._consumables}
        return {name: self._capacities[place] for name, place in places.items() if place in self._capacities}

    def text(self, resource: ResourceRow) -> str:
        """Return the table as text for people."""
        units = {consumable.name: consumable.unit for consumable in self._consumables}
        return ", ".join(
            f"{name}={amount_text(stock.capacity, units[name])} ({amount_text(stock.held, units[name])} held)"
            for name, stock in self.of(resource).items()
        )


def _described(
    row: ResourceRow, node: NodeDescription | None, jobs: Sequence[int], stocks: str, windows: Sequence[WindowRow]
) -> str:
    pairs = _pairs(properties_of(row))
    lines = [
        f"network_address: {row.network_address or ''}".rstrip(),
        f"resource_id: {row.resource_id}",
        f"state: {state(row, windows)}",
        *([f"reason: {_reason(node)}"] if node and node.away_since is not None else []),
        *(f"maintenance: {maintenance.window_text(row)}" for row in windows),
        *([f"load: {_load(node)}"] if node and node.load_at else []),
        *([f"jobs: {', '.join(map(str, jobs))}"] if jobs else []),
        *([f"consumables: {stocks}"] if stocks else []),
        f"properties: {one_line(pairs)}",
    ]
    return "\n".join(lines) + "\n"


def _pairs(values: Mapping[str, PropertyValue]) -> str:
    return ", ".join(
        f"{name}={shown(value)}" for name, value in values.items() if name not in _IN_LINES and value is not None
    )


def _load_json(node: NodeDescription | None) -> LoadDocument | None:
    if node is None or node.load_at is None:
        return None
    return {
        "average": node.load_average,
        "available_memory": node.available_memory,
        "uptime": node.uptime,
        "at": int(node.load_at),
    }


def _load(node: NodeDescription) -> str:
    up = format_duration(node.uptime or 0)
    return f"{node.load_average:.2f}, {node.available_memory} MiB available, up {up} ({local_date(node.load_at)})"


def _reason(node: NodeDescription) -> str:
    reason = one_line(node.away_reason) if node.away_reason else "none given"
    return f"{reason} ({node.away_by}, {local_date(node.away_since or 0)})"


def state(row: ResourceRow, windows: Sequence[WindowRow] = ()) -> str:
    """Return the state; an absent resource that can be woken up is ``Absent (standby)``.

    A resource that gets no jobs, as it is drained or in maintenance, is marked.
    """
    upto = row.properties.get("available_upto")
    if row.state == "Absent" and isinstance(upto, datetime) and upto.timestamp() >= time.time():
        return "Absent (standby)"
    if row.properties.get("drain"):
        return f"{row.state} (drain)"
    return f"{row.state} (maintenance)" if any(map(maintenance.is_under_way, windows)) else row.state


def states(session: Session, rows: Sequence[ResourceRow], seen: Look = PLAIN) -> Report[dict[str, dict[str, str]]]:
    """Return the state of each resource under its node."""
    windows = maintenance.windows_of(session)

    def now(row: ResourceRow) -> str:
        return state(row, windows.get(row.network_address or "", ()))

    return _by_node(rows, now, now, seen)


def properties(
    selected: Sequence[ResourceRow], chosen: Sequence[str]
) -> Report[dict[str, dict[str, int | str | bool | None]]]:
    """Return the ``chosen`` properties of each resource (none: all); raise :class:`NotFound` for an unknown one."""
    described = {row.resource_id: properties_of(row) for row in selected}
    known = next(iter(described.values()), {})
    for name in chosen:
        if known and name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]}?" if close else "oarproperty -l lists them"
            raise NotFound(f"there is no property '{name[:60]}'", hint=hint)
    names = list(dict.fromkeys(chosen)) or [name for name in known if name not in _IN_LINES]

    def text() -> str:
        if not chosen:
            return _by_node(selected, lambda row: _pairs(described[row.resource_id]), lambda resource: None).text()
        titles = ("resource_id", "network_address", *names)
        rows = tuple(tuple(shown(values[title]) for title in titles) for values in described.values())
        return Table(tuple(map(Column, titles)), rows).text()

    return TwoForms(
        text,
        lambda: {
            str(number): {name: value_json(values[name]) for name in names} for number, values in described.items()
        },
    )


def summary(session: Session, selected: Sequence[ResourceRow], seen: Look) -> Report[dict[str, CountsDocument]]:
    """Return how many nodes and resources are in each state, and how many of the resources jobs hold."""
    windows = maintenance.windows_of(session)
    held = resources.holders(session.connection, [row.resource_id for row in selected])
    in_state: dict[str, list[ResourceRow]] = {}
    for row in selected:
        in_state.setdefault(state(row, windows.get(row.network_address or "", ())), []).append(row)
    counts = {name: _counts(group, held) for name, group in sorted(in_state.items())}
    counts["total"] = _counts(selected, held)
    columns = (Column("State", 12, colour=_state_colour), *(Column(name.capitalize(), 9) for name in counts["total"]))
    rows = tuple((name, *map(str, numbers.values())) for name, numbers in counts.items())
    return TwoForms(lambda: Table(columns, rows).text(seen), lambda: counts)


def _counts(group: Sequence[ResourceRow], held: Container[int]) -> CountsDocument:
    taken = sum(row.resource_id in held for row in group)
    hosts = {row.network_address for row in group if row.network_address}
    return {"nodes": len(hosts), "resources": len(group), "held": taken, "free": len(group) - taken}


_COLOURS = {"Alive": GREEN, "Absent": YELLOW, "Suspected": RED, "Dead": RED}


def _state_colour(text: str) -> str:
    return _COLOURS.get(text.split(" ")[0], "")


def jobs(session: Session, rows: Sequence[ResourceRow]) -> Report[dict[str, dict[str, tuple[int, ...]]]]:
    """Return the jobs on each resource that is held, under its node."""
    holders = resources.holders(session.connection, [row.resource_id for row in rows])
    held = [row for row in rows if row.resource_id in holders]

    def listed(row: ResourceRow) -> tuple[int, ...]:
        return holders[row.resource_id]

    return _by_node(held, lambda row: ", ".join(map(str, listed(row))), listed)


def _by_node(
    rows: Sequence[ResourceRow],
    text: Callable[[ResourceRow], str],
    value: Callable[[ResourceRow], Value],
    seen: Look = PLAIN,
) -> Report[dict[str, dict[str, Value]]]:
    grouped = [(name or NO_NODE, list(group)) for name, group in groupby(rows, key=lambda row: row.network_address)]

    def lines() -> str:
        texts = []
        for name, group in grouped:
            texts.append(f"{name or '(no node)'}\n")
            texts += [
                f"    {row.resource_id} : {seen.painted(one_line(text(row)), _state_colour(text(row)))}\n"
                for row in group
            ]
        return "".join(texts)

    return TwoForms(
        lines, lambda: {name: {str(row.resource_id): value(row) for row in group} for name, group in grouped}
    )


def names(rows: Sequence[ResourceRow]) -> Report[list[str]]:
    """Return the names of the nodes, one a line."""
    listed = list(dict.fromkeys(row.network_address for row in rows if row.network_address is not None))
    return TwoForms(lambda: ids_text(listed), lambda: listed)


def event_log(
    session: Session, rows: Sequence[ResourceRow], since: datetime | None, *, everywhere: bool
) -> Report[list[EventDocument]]:
    """Return the last :data:`LAST_EVENTS` events of the nodes (``everywhere``: of any), or all from ``since`` on."""
    hosts = None if everywhere else sorted({row.network_address for row in rows if row.network_address is not None})
    listed = events.host_events(session.connection, hosts, since, None if since else LAST_EVENTS)
    return TwoForms(
        lambda: "".join(f"[{','.join(event.hosts)}] {event_line(event)}" for event in listed),
        lambda: [event_json(event) for event in listed],
    )
