"""Nodes, resources, queues and quotas: seen by everybody, changed by admins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypedDict

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field

from oarpy.client.jobs.description import EventDocument
from oarpy.client.past.periods import parse_date
from oarpy.client.platform import maintenance, node_settings, nodes, queues, quotas
from oarpy.client.platform.maintenance import MaintenanceDocument
from oarpy.client.platform.nodes import ResourceDocument
from oarpy.client.platform.queues import QueueDocument
from oarpy.client.platform.quota_file import QuotaDocument, document
from oarpy.client.platform.resource_selection import find
from oarpy.store.platform import queues as queue_store
from oarpy.web.answers import Page, Route
from oarpy.web.identity import Administering, Reader
from oarpy.web.seats import seats_of

router = APIRouter(tags=["platform"], route_class=Route)

Hosts = Annotated[list[str], Query(max_length=1000, description="nodes, such as node[1-4]")]
Name = Annotated[str, Path(min_length=1, max_length=200)]


class NodeDocument(TypedDict):
    """A node: its resources, and its maintenance under way or to come."""

    name: str
    resources: Sequence[ResourceDocument]
    maintenance: Sequence[MaintenanceDocument]


class NodeChangeDocument(TypedDict):
    """The changed resources and the killed jobs; for a window, its number and the jobs that may run into it."""

    resources: Sequence[int]
    killed_jobs: Sequence[int]
    window: int | None
    crossed_jobs: Sequence[int]


class CancelledDocument(TypedDict):
    """The windows that were cancelled."""

    cancelled: Sequence[int]


@router.get("/resources")
def resources(
    request: Request,
    identity: Reader,
    host: Hosts = [],  # noqa: B006
    after: Annotated[int, Query(ge=0, le=2**31 - 1, description="key of a page: next of the last one")] = 0,
    limit: Annotated[int, Query(ge=1, le=20_000)] = 1000,
) -> Page[ResourceDocument]:
    """List resources with their properties, states and jobs, as ``oarnodes -J``, in order of id."""
    with seats_of(request).session(identity) as session:
        held = sorted(find(session, (), host), key=lambda row: row.resource_id)
        rest = [row for row in held if row.resource_id > after]
        shown = nodes.full(session, rest[:limit]).data()
    return {"items": list(shown.values()), "next": rest[limit - 1].resource_id if len(rest) > limit else None}


@router.get("/nodes")
def node_states(request: Request, identity: Reader, host: Hosts = []) -> dict[str, dict[str, str]]:  # noqa: B006
    """Return the state of each resource by node, as ``oarnodes -s -J``."""
    with seats_of(request).session(identity) as session:
        return nodes.states(session, find(session, (), host)).data()


@router.get("/nodes/{name}")
def node(request: Request, identity: Reader, name: Name) -> NodeDocument:
    """Return the resources of a node, and its maintenance."""
    with seats_of(request).session(identity) as session:
        rows = find(session, (), [name])
        shown = nodes.full(session, rows).data()
        planned = maintenance.listed(session, [row.network_address for row in rows]).data()
    return {"name": name, "resources": list(shown.values()), "maintenance": planned}


@router.get("/nodes/{name}/events")
def node_events(
    request: Request, identity: Reader, name: Name, since: Annotated[str | None, Query(max_length=60)] = None
) -> list[EventDocument]:
    """Return the last events of a node, or all from a date on, as ``oarnodes -e -J``."""
    moment = None if since is None else parse_date(since)
    with seats_of(request).session(identity) as session:
        rows = find(session, (), [name])
        return nodes.event_log(session, rows, moment, everywhere=False).data()


class NodeWish(BaseModel):
    """A change of resources, as with ``oarnodesetting``."""

    hosts: list[str] = Field([], max_length=10_000)
    resources: list[Annotated[int, Field(ge=1, le=2**31 - 1)]] = Field([], max_length=100_000)
    state: str | None = Field(None, max_length=20, description="Alive, Absent, Suspected or Dead")
    drain: bool | None = Field(None, description="true: no new jobs, running ones finish")
    maintenance: str | None = Field(None, max_length=200, description="START..END: a window without jobs")
    reason: str | None = Field(None, max_length=500)
    properties: list[str] = Field([], max_length=1000, description="NAME=VALUE")


@router.post("/nodes/settings")
def set_nodes(request: Request, identity: Administering, wish: NodeWish) -> NodeChangeDocument:
    """Change states, drain, maintenance or properties of resources."""
    window = None if wish.maintenance is None else maintenance.parse_window(wish.maintenance)
    changes = node_settings.Changes(wish.state, None, wish.drain, tuple(wish.properties), wish.reason, window)
    selection = node_settings.Selection(tuple(map(str, wish.resources)), tuple(wish.hosts))
    with seats_of(request).session(identity, changes=True) as session:
        session.require_admin("change resources")
        outcome = node_settings.change(session, selection, changes)
    planned = outcome.planned
    return {
        "resources": outcome.resource_ids,
        "killed_jobs": outcome.killed_jobs,
        "window": None if planned is None else planned.window,
        "crossed_jobs": () if planned is None else planned.crossed,
    }


@router.get("/maintenance")
def windows(request: Request, identity: Reader) -> list[MaintenanceDocument]:
    """Return the maintenance windows that are under way or to come."""
    with seats_of(request).session(identity) as session:
        names = [row.network_address for row in find(session)]
        return maintenance.listed(session, names).data()


@router.delete("/maintenance/{window}")
def cancel_window(
    request: Request, identity: Administering, window: Annotated[int, Path(ge=1, le=2**31 - 1)]
) -> CancelledDocument:
    """Cancel a maintenance window."""
    with seats_of(request).session(identity, changes=True) as session:
        return {"cancelled": maintenance.cancel(session, [str(window)])}


@router.get("/queues")
def queue_list(request: Request, identity: Reader) -> dict[str, QueueDocument]:
    """Return the queues by name, as ``oarqueue -J``."""
    with seats_of(request).session(identity) as session:
        return queues.document(queue_store.queues(session.connection))


class QueueWish(BaseModel):
    """A change of a queue; fields that are not given stay."""

    active: bool | None = None
    priority: int | None = Field(None, ge=0, le=1_000_000)
    policy: str | None = Field(None, max_length=100, description="order of its jobs")


@router.patch("/queues/{name}")
def change_queue(request: Request, identity: Administering, name: Name, wish: QueueWish) -> dict[str, QueueDocument]:
    """Open or close a queue, or change its priority and order, as ``oarqueue``."""
    with seats_of(request).session(identity, changes=True) as session:
        session.require_admin("change queues")
        with session.connection.transaction():
            present = queues.find(session, name)
            if wish.priority is not None or wish.policy is not None:
                priority = present.priority if wish.priority is None else wish.priority
                policy = present.policy if wish.policy is None else wish.policy
                queues.change(session, queues.parse_queue(f"{name},{priority},{policy}"))
            if wish.active is not None:
                queues.activate(session, [name], active=wish.active)
        return queues.document(queue_store.queues(session.connection))


@router.get("/quotas")
def quota_rules(request: Request, identity: Reader) -> QuotaDocument:
    """Return the quotas, as ``oaradmin quotas show -J``."""
    with seats_of(request).session(identity) as session:
        return document(quotas.stored(session))
