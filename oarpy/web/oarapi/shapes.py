"""The shapes of OAR 2.5's interface: items with links, and pages of them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Generic, NotRequired, TypedDict, TypeVar, cast
from urllib.parse import urlencode

from fastapi import Request

from oarpy.client.jobs import job_views
from oarpy.client.jobs.description import JobDocument, SharedJobDocument
from oarpy.client.platform.nodes import ResourceDocument
from oarpy.client.session import Session
from oarpy.store.jobs.details import JobDetails
from oarpy.store.jobs.job_listing import ListedJob

PREFIX = "/oarapi"
"""Below this the paths of OAR are."""


Item = TypeVar("Item")


class Link(TypedDict):
    """A link."""

    rel: str
    href: str
    title: NotRequired[str]


class Collection(TypedDict, Generic[Item]):
    """A page of a list."""

    items: list[Item]
    total: int
    offset: int
    links: list[Link]
    api_timestamp: int


class OarListedJob(TypedDict):
    """A job of a list."""

    id: int
    state: str
    owner: str
    name: str | None
    queue: str
    submission: int
    links: list[Link]
    api_timestamp: int


class OarJob(SharedJobDocument):
    """A job by the names of OAR's interface."""

    id: int
    launching_directory: str
    type: str
    submission_time: int
    start_time: int | None
    stop_time: int | None
    scheduled_start: int | None
    links: list[Link]
    api_timestamp: int


class OarHeldResource(TypedDict):
    """A resource that a job holds, held or has reserved."""

    id: int
    status: str
    links: list[Link]
    api_timestamp: int


class OarHeldNode(TypedDict):
    """A node of a job."""

    network_address: str
    status: str
    links: list[Link]
    api_timestamp: int


class OarJobDetails(OarJob):
    """A job with its resources and nodes."""

    resources: list[OarHeldResource]
    nodes: list[OarHeldNode]


class OarResource(TypedDict):
    """A resource of a list."""

    id: int
    resource_id: int
    network_address: str | None
    state: str
    links: list[Link]
    api_timestamp: int


class OarFullResource(ResourceDocument):
    """A resource with all its properties."""

    id: int
    links: list[Link]
    api_timestamp: int


class OarRegistered(TypedDict):
    """A request that is carried out later."""

    id: int
    status: str
    cmd_output: str
    api_timestamp: int


class OarSubmitted(TypedDict):
    """A job that was submitted, and what oarsub would have printed."""

    id: int
    cmd_output: str
    links: list[Link]
    api_timestamp: int


class OarTimezone(TypedDict):
    """The time zone of the service."""

    timezone: str
    api_timestamp: int


class OarVersions(OarTimezone):
    """The version of OAR that this is like, and that of oarpy."""

    oar: str
    oarpy: str
    api: str
    apilib: str


class OarWhoami(TypedDict):
    """The user of a request, null for nobody."""

    authenticated_user: str | None
    api_timestamp: int


class OarErrorDocument(TypedDict):
    """The answer when something goes wrong, with the HTTP status."""

    code: int
    title: str
    message: str


def brief(job: ListedJob) -> OarListedJob:
    """Return a job of a list."""
    return {
        "id": job.job_id,
        "state": job.state,
        "owner": job.user,
        "name": job.name or None,
        "queue": job.queue,
        "submission": int(job.submitted),
        "links": _job_links(job.job_id),
        "api_timestamp": now(),
    }


def detailed(session: Session, job: JobDetails) -> OarJobDetails:
    """Return a job by the names of OAR's interface, which are not those of ``oarstat``."""
    shown: JobDocument = job_views.full(session, job)
    names = {
        "Job_Id": "id",
        "launchingDirectory": "launching_directory",
        "jobType": "type",
        "submissionTime": "submission_time",
        "startTime": "start_time",
        "stopTime": "stop_time",
        "scheduledStart": "scheduled_start",
    }
    left_out = ("assigned_resources", "assigned_network_address", "reserved_resources", "job_user", "reason_data")
    renamed = {names.get(name, name): value for name, value in shown.items() if name not in left_out}
    more = {
        "resources": resources_of(job),
        "nodes": nodes_of(job),
        "links": _job_links(job.row.job_id),
        "api_timestamp": now(),
    }
    return cast(OarJobDetails, {**renamed, **more})


def resources_of(job: JobDetails) -> list[OarHeldResource]:
    """Return what a job holds, held or has reserved."""
    held = [(number, "assigned") for number in job.resource_ids]
    reserved = [(number, "reserved") for number in job.reserved_ids if number not in job.resource_ids]
    return [
        {"id": number, "status": status, "links": _resource_links(number), "api_timestamp": now()}
        for number, status in (*held, *reserved)
    ]


def nodes_of(job: JobDetails) -> list[OarHeldNode]:
    """Return the nodes of a job."""
    return [
        {
            "network_address": name,
            "status": "assigned",
            "links": [link("self", f"/resources/nodes/{name}")],
            "api_timestamp": now(),
        }
        for name in job.hosts
    ]


def resource_record(number: int, node_name: str | None, state: str) -> OarResource:
    """Return a resource of a list."""
    links = [link("node", f"/resources/nodes/{node_name}")] if node_name else []
    return {
        "id": number,
        "resource_id": number,
        "network_address": node_name,
        "state": state,
        "links": [*links, *_resource_links(number)],
        "api_timestamp": now(),
    }


def full_resource(shown: ResourceDocument) -> OarFullResource:
    """Return a resource with all its properties."""
    return {**shown, **resource_record(shown["resource_id"], shown["network_address"], shown["state"])}


def registered(what: str, job_id: int) -> OarRegistered:
    """Return the answer to a request that is carried out later."""
    status = f"{what} request registered"
    return {"id": job_id, "status": status, "cmd_output": f"[{job_id}] {status}.\n", "api_timestamp": now()}


def collection(request: Request, items: Iterable[Item], total: int, offset: int, limit: int | None) -> Collection[Item]:
    """Return a page with links to itself and its neighbours; without ``limit`` it has none."""
    path = request.url.path
    links: list[Link] = [{"rel": "self", "href": _page_address(request, path, limit, offset)}]
    if limit is not None and offset + limit < total:
        links.append({"rel": "next", "href": _page_address(request, path, limit, offset + limit)})
    if limit is not None and offset > 0:
        links.append({"rel": "previous", "href": _page_address(request, path, limit, max(0, offset - limit))})
    return {"items": list(items), "total": total, "offset": offset, "links": links, "api_timestamp": now()}


def _page_address(request: Request, path: str, limit: int | None, offset: int) -> str:
    pairs = [(name, value) for name, value in request.query_params.multi_items() if name not in ("limit", "offset")]
    if limit is not None:
        pairs += [("limit", str(limit)), ("offset", str(offset))]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def _job_links(number: int) -> list[Link]:
    return [
        link("self", f"/jobs/{number}"),
        {**link("collection", f"/jobs/{number}/resources"), "title": "resources"},
        {**link("collection", f"/jobs/{number}/nodes"), "title": "nodes"},
    ]


def _resource_links(number: int) -> list[Link]:
    return [
        link("self", f"/resources/{number}"),
        {**link("collection", f"/resources/{number}/jobs"), "title": "jobs"},
    ]


def link(relation: str, path: str) -> Link:
    """Return a link."""
    return {"rel": relation, "href": PREFIX + path}


def now() -> int:
    """Return the epoch seconds that every item bears."""
    return int(time.time())
