"""Projects that pay for jobs: what is left of their hours, and members, which coordinators change here."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from oarpy.client.platform import projects
from oarpy.client.platform.queues import giving_way_text
from oarpy.web.identity import Reader
from oarpy.web.pages.rendering import page
from oarpy.web.seats import seats_of

router = APIRouter()


@router.get("/projects")
def listed(request: Request, identity: Reader) -> Response:
    """Return the projects that the reader may see."""
    with seats_of(request).session(identity) as session:
        seen = projects.listed(session)
    return page(request, identity, "projects.html", projects=seen)


@router.get("/projects/{name}")
def shown(request: Request, identity: Reader, name: str) -> Response:
    """Return one project with its members."""
    with seats_of(request).session(identity) as session:
        project, members = projects.shown(session, name)
        may = projects.coordinates(session, name)
    giving = giving_way_text(project.row) if project.row.gives_way_to else ""
    return page(
        request,
        identity,
        "project.html",
        project=project,
        members=members,
        may=may,
        giving=giving,
        roles=projects.ROLES,
    )
