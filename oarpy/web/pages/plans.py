"""Plans by date: advance reservations, and maintenance windows of nodes."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from oarpy.client.platform.maintenance import is_under_way
from oarpy.store.jobs.job_listing import database_time
from oarpy.store.pages.reservations import reservations as all_reservations
from oarpy.store.platform import maintenance as windows
from oarpy.web.identity import Reader
from oarpy.web.pages.rendering import page
from oarpy.web.seats import seats_of

router = APIRouter()

_MOST = 500
"""The most reservations on the page, more than any site has."""


@router.get("/reservations")
def reservations(request: Request, identity: Reader) -> Response:
    """Return the reservations that are not over, in the order of their dates."""
    with seats_of(request).session(identity) as session:
        listed = all_reservations(session.connection, _MOST)
        now = database_time(session.connection)
    return page(request, identity, "reservations.html", reservations=listed, now=now, most=_MOST)


@router.get("/maintenance")
def maintenance(request: Request, identity: Reader) -> Response:
    """Return the windows that are under way or to come; admins plan and cancel them here."""
    with seats_of(request).session(identity) as session:
        listed = [(row, is_under_way(row)) for row in windows.valid(session.connection)]
        admin = session.is_admin
    return page(request, identity, "maintenance.html", windows=listed, admin=admin)
