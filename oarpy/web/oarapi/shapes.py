"""The shapes of OAR 2.5's interface: items with links, and pages of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import Request

from oarpy.client.jobs import job_views
from oarpy.client.session import Session
from oarpy.store.jobs.details import JobDetails
from oarpy.store.jobs.job_listing import ListedJob

PREFIX = "/oarapi"
"""Below this the paths of OAR are."""


def brief(job: ListedJob) -> dict[str, Any]:
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


def detailed(session: Session, job: JobDetails) -> dict[str, Any]:
    """Return a job by the names of OAR's interface, which are not those of ``oarstat``."""
    shown = job_views.full(session, job)
    names = {
        "Job_Id": "id",
        "launchingDirectory": "launching_directory",
        "jobType": "type",
        "submissionTime": "submission_time",
        "startTime": "start_time",
        "stopTime": "stop_time",
        "scheduledStart": "scheduled_start",
    }
    left_out = ("assigned_resources", "assigned_network_address", "reserved_resources", "job_user")
    renamed = {names.get(name, name): value for name, value in shown.items() if name not in left_out}
    return {
        **renamed,
        "resources": resources_of(job),
        "nodes": nodes_of(job),
        "links": _job_links(job.row.job_id),
        "api_timestamp": now(),
    }


def resources_of(job: JobDetails) -> list[dict[str, Any]]:
    """Return what a job holds, held or has reserved."""
    held = [(number, "assigned") for number in job.resource_ids]
    reserved = [(number, "reserved") for number in job.reserved_ids if number not in job.resource_ids]
    return [
        {"id": number, "status": status, "links": _resource_links(number), "api_timestamp": now()}
        for number, status in (*held, *reserved)
    ]


def nodes_of(job: JobDetails) -> list[dict[str, Any]]:
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


def resource_record(number: int, node_name: str | None, state: str) -> dict[str, Any]:
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


def full_resource(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return a resource with all its properties."""
    return {**shown, **resource_record(shown["resource_id"], shown["network_address"], shown["state"])}


def registered(what: str, job_id: int) -> dict[str, Any]:
    """Return the answer to a request that is carried out later."""
    status = f"{what} request registered"
    return {"id": job_id, "status": status, "cmd_output": f"[{job_id}] {status}.\n", "api_timestamp": now()}


def collection(request: Request, items: Iterable[Any], total: int, offset: int, limit: int | None) -> dict[str, Any]:
    """Return a page with links to itself and its neighbours; without ``limit`` it has none."""
    path = request.url.path
    links = [{"rel": "self", "href": _page_address(request, path, limit, offset)}]
    if limit is not None and offset + limit < total:
        links.append({"rel": "next", "href": _page_address(request, path, limit, offset + limit)})
    if limit is not None and offset > 0:
        links.append({"rel": "previous", "href": _page_address(request, path, limit, max(0, offset - limit))})
    return {"items": list(items), "total": total, "offset": offset, "links": links, "api_timestamp": now()}


def _page_address(request: Request, path: str, limit: int | None, offset: int) -> str:
    asked = [(name, value) for name, value in request.query_params.multi_items() if name not in ("limit", "offset")]
    if limit is not None:
        asked += [("limit", str(limit)), ("offset", str(offset))]
    return f"{path}?{urlencode(asked)}" if asked else path


def _job_links(number: int) -> list[dict[str, str]]:
    return [
        link("self", f"/jobs/{number}"),
        {**link("collection", f"/jobs/{number}/resources"), "title": "resources"},
        {**link("collection", f"/jobs/{number}/nodes"), "title": "nodes"},
    ]


def _resource_links(number: int) -> list[dict[str, str]]:
    return [
        link("self", f"/resources/{number}"),
        {**link("collection", f"/resources/{number}/jobs"), "title": "jobs"},
    ]


def link(relation: str, path: str) -> dict[str, str]:
    """Return a link."""
    return {"rel": relation, "href": PREFIX + path}


def now() -> int:
    """Return the epoch seconds that every item bears."""
    return int(time.time())
