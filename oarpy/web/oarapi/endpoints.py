"""The endpoints of OAR 2.5: each calls what the command of the same purpose calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, cast

from fastapi import APIRouter, Body, Depends, Path, Query, Request
from pydantic import ValidationError

from oarpy import installed_version
from oarpy.client.jobs import actions, job_views
from oarpy.client.jobs.selection import JobSelection, parse_ids
from oarpy.client.platform import nodes
from oarpy.client.platform.resource_selection import find
from oarpy.client.session import Session
from oarpy.model.errors import NotFound, UsageError
from oarpy.model.submission import OPTIONS
from oarpy.model.submission_checks import read_signal
from oarpy.store.jobs.details import JobDetails
from oarpy.store.jobs.job_listing import ListedJob
from oarpy.store.past import job_pages
from oarpy.store.past.job_pages import JobFilter
from oarpy.web.answers import Route
from oarpy.web.api.jobs import LARGEST_ID, MOST, JobId
from oarpy.web.api.submission import JobWish, submitted
from oarpy.web.identity import Anybody, Identity, Reader, Submitting
from oarpy.web.oarapi.shapes import (
    PREFIX,
    Collection,
    OarFullResource,
    OarHeldNode,
    OarHeldResource,
    OarJob,
    OarJobDetails,
    OarListedJob,
    OarRegistered,
    OarResource,
    OarSubmitted,
    OarTimezone,
    OarVersions,
    OarWhoami,
    brief,
    collection,
    detailed,
    full_resource,
    link,
    nodes_of,
    now,
    registered,
    resource_record,
    resources_of,
)
from oarpy.web.seats import seats_of

router = APIRouter(prefix=PREFIX, tags=["OAR 2.5"], route_class=Route)

Limit = Annotated[int, Query(ge=1, le=MOST)]
Offset = Annotated[int, Query(ge=0, le=10_000_000)]
Begin = Annotated[int | None, Query(alias="from", ge=0, le=7_000_000_000)]
End = Annotated[int | None, Query(alias="to", ge=0, le=7_000_000_000)]
_NAMES = {
    word.removeprefix("--"): name for name, option in OPTIONS.items() for word in option.words if word[:2] == "--"
}
"""The field of a submission by the long option that programs name."""


def _filter(
    state: Annotated[str | None, Query(max_length=1000, description="states with commas between them")] = None,
    user: Annotated[str | None, Query(max_length=256)] = None,
    array: Annotated[int | None, Query(ge=1, le=LARGEST_ID)] = None,
    ids: Annotated[str | None, Query(max_length=10_000, description="ids with colons between them")] = None,
    begin: Begin = None,
    end: End = None,
) -> JobFilter:
    numbers = parse_ids(ids.split(":")) if ids else ()
    states = job_views.known_states(state.split(",")) if state else ()
    first, last = (None if at is None else datetime.fromtimestamp(at, UTC) for at in (begin, end))
    return JobFilter(
        live=not (states or array or numbers or first or last),
        ids=numbers,
        users=job_views.known_users([user]) if user else (),
        states=states,
        array=array,
        begin=first,
        end=last,
    )


Chosen = Annotated[JobFilter, Depends(_filter)]


@router.get("/version")
def version() -> OarVersions:
    """Return the versions. Everybody may ask."""
    return {"oar": "2.5.9", "oarpy": installed_version(), "api": "1.0", "apilib": "1.0", **_timezone()}


@router.get("/timezone")
def timezone() -> OarTimezone:
    """Return the time zone of this process. Everybody may ask."""
    return _timezone()


@router.get("/whoami")
def whoami(identity: Anybody) -> OarWhoami:
    """Return whose request it is, null for nobody."""
    return {"authenticated_user": identity.user or None, "api_timestamp": now()}


@router.get("/jobs")
def jobs(
    request: Request,
    identity: Reader,
    chosen: Chosen,
    limit: Limit = 500,
    offset: Offset = 0,
) -> Collection[OarListedJob]:
    """List jobs, the newest first; those that have not ended unless something else is asked for."""
    with seats_of(request).session(identity) as session:
        listed, total = _page(session, chosen, limit, offset)
    return collection(request, [brief(job) for job in listed], total, offset, limit)


@router.get("/jobs/details")
def details(
    request: Request,
    identity: Reader,
    chosen: Chosen,
    limit: Limit = 500,
    offset: Offset = 0,
) -> Collection[OarJobDetails]:
    """List jobs with everything on each."""
    with seats_of(request).session(identity) as session:
        listed, total = _page(session, chosen, limit, offset)
        shown = {job.row.job_id: detailed(session, job) for job in _full(session, listed)}
    items = [shown[job.job_id] for job in listed if job.job_id in shown]
    return collection(request, items, total, offset, limit)


@router.get("/jobs/{job_id}")
def job(request: Request, identity: Reader, job_id: JobId) -> OarJob:
    """Return everything on a job; of another's, not its command."""
    with seats_of(request).session(identity) as session:
        described = job_views.job(session, job_id)
        shown = detailed(session, described).items()
    return cast(OarJob, {name: value for name, value in shown if name not in ("resources", "nodes")})


@router.get("/jobs/{job_id}/details")
def job_details(request: Request, identity: Reader, job_id: JobId) -> OarJobDetails:
    """Return everything on a job, with its resources and nodes."""
    with seats_of(request).session(identity) as session:
        return detailed(session, job_views.job(session, job_id))


@router.get("/jobs/{job_id}/resources")
def job_resources(request: Request, identity: Reader, job_id: JobId) -> Collection[OarHeldResource]:
    """Return what a job holds, held or has reserved."""
    with seats_of(request).session(identity) as session:
        items = resources_of(job_views.job(session, job_id))
    return collection(request, items, len(items), 0, None)


@router.get("/jobs/{job_id}/nodes")
def job_nodes(request: Request, identity: Reader, job_id: JobId) -> Collection[OarHeldNode]:
    """Return the nodes of a job."""
    with seats_of(request).session(identity) as session:
        items = nodes_of(job_views.job(session, job_id))
    return collection(request, items, len(items), 0, None)


@router.post("/jobs", status_code=201)
def submit(request: Request, identity: Submitting, asked: Annotated[dict[str, Any], Body()]) -> OarSubmitted:
    """Submit a job: ``resource``, ``command``, ``workdir``, ``param_file``, and long options of oarsub by name."""
    try:
        wish = JobWish(**_fields(asked))
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    answer = submitted(request, identity, wish)
    number = answer["job_id"]
    lines = [
        *answer["notes"],
        *answer["warnings"],
        *(f"OAR_JOB_ID={submitted_id}" for submitted_id in answer["job_ids"]),
    ]
    return {
        "id": number,
        "cmd_output": "".join(f"{line}\n" for line in lines),
        "links": [link("self", f"/jobs/{number}")],
        "api_timestamp": now(),
    }


@router.delete("/jobs/{job_id}")
@router.post("/jobs/{job_id}/deletions/new")
def delete(request: Request, identity: Submitting, job_id: JobId) -> OarRegistered:
    """Ask for the end of a job."""
    with seats_of(request).session(identity, changes=True) as session:
        deletion = actions.delete(session, JobSelection((job_id,)))
    deletion.raise_complaints()
    return registered("Delete", job_id)


@router.post("/jobs/{job_id}/checkpoints/new")
def checkpoint(request: Request, identity: Submitting, job_id: JobId) -> OarRegistered:
    """Send a job its checkpoint signal."""
    return _done(request, identity, job_id, "Checkpoint", actions.checkpoint)


@router.post("/jobs/{job_id}/holds/new")
def hold(request: Request, identity: Submitting, job_id: JobId) -> OarRegistered:
    """Keep a job that waits from being scheduled."""
    return _done(request, identity, job_id, "Hold", actions.hold)


@router.post("/jobs/{job_id}/rholds/new")
def suspend(request: Request, identity: Submitting, job_id: JobId) -> OarRegistered:
    """Suspend a job that runs."""
    return _done(request, identity, job_id, "Hold", lambda session, wanted: actions.hold(session, wanted, running=True))


@router.post("/jobs/{job_id}/resumptions/new")
def resume(request: Request, identity: Submitting, job_id: JobId) -> OarRegistered:
    """Let a job go on."""
    return _done(request, identity, job_id, "Resume", actions.resume)


@router.post("/jobs/{job_id}/signals/{signal}")
def send_signal(
    request: Request, identity: Submitting, job_id: JobId, signal: Annotated[str, Path(max_length=20)]
) -> OarRegistered:
    """Send a signal to a job that runs."""
    number = read_signal(signal)

    def send(session: Session, wanted: JobSelection) -> object:
        return actions.send_signal(session, wanted, number)

    return _done(request, identity, job_id, "Signal sending", send)


@router.get("/resources")
def resources(request: Request, identity: Reader, limit: Limit = 500, offset: Offset = 0) -> Collection[OarResource]:
    """List resources with their states."""
    with seats_of(request).session(identity) as session:
        rows = sorted(find(session), key=lambda row: row.resource_id)
    items = [resource_record(row.resource_id, row.network_address, row.state) for row in rows[offset : offset + limit]]
    return collection(request, items, len(rows), offset, limit)


@router.get("/resources/full")
@router.get("/resources/details")
def full_resources(
    request: Request, identity: Reader, limit: Limit = 500, offset: Offset = 0
) -> Collection[OarFullResource]:
    """List resources with all their properties."""
    with seats_of(request).session(identity) as session:
        rows = sorted(find(session), key=lambda row: row.resource_id)
        shown = nodes.full(session, rows[offset : offset + limit]).data()
    return collection(request, [full_resource(properties) for properties in shown.values()], len(rows), offset, limit)


@router.get("/resources/nodes/{name}")
def node(request: Request, identity: Reader, name: Annotated[str, Path(max_length=200)]) -> Collection[OarResource]:
    """List the resources of a node."""
    with seats_of(request).session(identity) as session:
        rows = find(session, (), [name])
    items = [resource_record(row.resource_id, row.network_address, row.state) for row in rows]
    return collection(request, items, len(items), 0, None)


ResourceId = Annotated[int, Path(ge=1, le=2**31 - 1)]


@router.get("/resources/{resource_id}")
def resource(request: Request, identity: Reader, resource_id: ResourceId) -> OarFullResource:
    """Return a resource with all its properties."""
    with seats_of(request).session(identity) as session:
        shown = nodes.full(session, find(session, [str(resource_id)])).data()
    return full_resource(shown[str(resource_id)])


@router.get("/resources/{resource_id}/jobs")
def resource_jobs(request: Request, identity: Reader, resource_id: ResourceId) -> Collection[OarListedJob]:
    """List the jobs that hold a resource now."""
    with seats_of(request).session(identity) as session:
        shown = nodes.full(session, find(session, [str(resource_id)])).data()
        ids = tuple(shown[str(resource_id)]["jobs"])
        listed = job_pages.page(session.connection, JobFilter(ids=ids), limit=MOST).jobs if ids else ()
    return collection(request, [brief(held) for held in listed], len(listed), 0, None)


def _done(
    request: Request, identity: Identity, job_id: int, word: str, act: Callable[[Session, JobSelection], object]
) -> OarRegistered:
    with seats_of(request).session(identity, changes=True) as session:
        act(session, JobSelection((job_id,)))
    return registered(word, job_id)


def _page(session: Session, chosen: JobFilter, limit: int, offset: int) -> tuple[Sequence[ListedJob], int]:
    listed = job_pages.page(session.connection, chosen, limit=limit, offset=offset).jobs
    return listed, job_pages.count(session.connection, chosen)


def _full(session: Session, listed: Sequence[ListedJob]) -> tuple[JobDetails, ...]:
    try:
        return job_views.several(session, [job.job_id for job in listed])
    except NotFound:  # the past was tidied up meanwhile
        return ()


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a submission that OAR's names mean; raise :class:`UsageError` for an unknown one."""
    fields: dict[str, Any] = {}
    for key, value in given.items():
        if key == "command":
            fields["command"] = value
        elif key == "param_file":
            fields["array_parameters"] = [line for line in str(value).splitlines() if line.strip()]
        elif key == "workdir":
            fields["directory"] = value
        elif key not in _NAMES:
            raise UsageError(f"'{key[:40]}' is no option of oarsub here", hint="resource, command, workdir, ...")
        else:
            name = _NAMES[key]
            fields[name] = _value(name, value)
    return fields


def _value(name: str, value: Any) -> Any:
    option = OPTIONS[name]
    if option.repeated:
        return [str(item) for item in value] if isinstance(value, list) else [str(value)]
    return str(value) if option.metavar else str(value).lower() not in ("0", "false", "")


def _timezone() -> OarTimezone:
    return {"timezone": time.tzname[time.localtime().tm_isdst > 0], "api_timestamp": now()}
