"""One node: its state, its jobs, its history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from oarpy.client.platform.resource_text import properties_of, shown
from oarpy.model.errors import NotFound, UsageError
from oarpy.store import events
from oarpy.store.pages import node_course
from oarpy.store.pages.node_course import NodeState
from oarpy.store.platform import nodes, resources
from oarpy.store.platform.resources import ResourceRow, ResourceScope
from oarpy.web.identity import Reader
from oarpy.web.pages import query
from oarpy.web.pages.rendering import duration, page
from oarpy.web.seats import seats_of

router = APIRouter()

_WIDTH, _HEIGHT = 600.0, 40.0
_PERIODS = (1, 7, 30, 365)
_OWN = frozenset({"resource_id", "network_address", "host", "type", "cpu", "core", "cpuset", "drain", "state"})


@dataclass(frozen=True, slots=True)
class DrawnSpan:
    """A state of some resources of the node, as a part of the drawing."""

    state: str
    x: float
    y: float
    width: float
    height: float
    title: str


@router.get("/nodes/{name}")
def node(request: Request, identity: Reader, name: str) -> Response:
    """Return the page."""
    days = int(query.text(request, "days", "30") or 0) if query.text(request, "days", "30").isdecimal() else 0
    if days not in _PERIODS:
        raise UsageError("days is not known", hint="one of " + ", ".join(map(str, _PERIODS)))
    now = datetime.now(UTC)
    begin = now - timedelta(days=days)
    with seats_of(request).session(identity) as session:
        connection = session.connection
        described = nodes.describe(connection, [name]) if name.isprintable() else ()
        if not described:
            raise NotFound(f"there is no node '{name[:60]}'", hint="the cluster page lists the nodes")
        rows = resources.resources(connection, ResourceScope(hosts=(name,)))
        holders = resources.holders(connection, [row.resource_id for row in rows])
        course = node_course.states(connection, name, begin, now)
        absences = node_course.absences(connection, name, begin, now)
        logged = events.host_events(connection, [name], begin, 50)
        admin = session.is_admin
    return page(
        request,
        identity,
        "node.html",
        name=name,
        node=described[0],
        admin=admin,
        resources=rows,
        states=Counter(row.state for row in rows).most_common(),
        drained=any(properties_of(row).get("drain") for row in rows),
        absent=any(row.state != "Alive" for row in rows),
        shared=_shared(rows),
        jobs=sorted({job for jobs in holders.values() for job in jobs}),
        drawn=_drawn(course, begin.timestamp(), now.timestamp(), len(rows)),
        course=_rows(course, now.timestamp()),
        absences=absences[::-1],
        now=now.timestamp(),
        events=logged[::-1],
        period=days,
    )


def _shared(rows: Sequence[ResourceRow]) -> list[tuple[str, str]]:
    """Return the properties that all resources of the node have in common."""
    if not rows:
        return []
    first, *others = (properties_of(row) for row in rows)
    same = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
    return [(key, shown(value)) for key, value in same.items() if key not in _OWN and value not in (None, "")]


def _rows(course: Sequence[NodeState], now: float) -> list[dict[str, Any]]:
    return [
        {
            "state": state.state,
            "by": state.by,
            "begin": state.begin,
            "lasted": (state.end or now) - state.begin,
            "resources": state.resources,
        }
        for state in reversed(course)
    ][:50]


def _drawn(course: Sequence[NodeState], begin: float, end: float, resources_: int) -> list[DrawnSpan]:
    """Return the states as bars as high as their part of the resources, one over the other from the ground."""
    scale, drawn = _WIDTH / (end - begin), []
    for state in course:
        first, last = max(state.begin, begin), min(state.end or end, end)
        height = _HEIGHT * state.resources / max(1, resources_)
        title = f"{state.state}, {state.resources} resources, {duration(last - first)}"
        below = 0.0 if state.state == "Alive" else _HEIGHT - height
        width = max(1.0, (last - first) * scale)
        drawn.append(
            DrawnSpan(state.state, round((first - begin) * scale, 2), round(below, 2), round(width, 2), height, title)
        )
    return drawn
