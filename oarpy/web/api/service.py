"""Facts about the service and the caller."""

from __future__ import annotations

from typing import TypedDict

from fastapi import APIRouter, Request

from oarpy import installed_version
from oarpy.web.answers import Route
from oarpy.web.identity import Anybody, Reader
from oarpy.web.seats import seats_of

router = APIRouter(tags=["service"], route_class=Route)


class VersionDocument(TypedDict):
    """The version of oarpy."""

    version: str


class WhoamiDocument(TypedDict):
    """The user of a request, the most that the request may do, and the way in which the user is known."""

    user: str
    admin: bool
    scope: str
    source: str


class HealthDocument(TypedDict):
    """``ok``: the database answers."""

    database: str


@router.get("/version")
def version() -> VersionDocument:
    """Return the version of oarpy. Everybody may ask."""
    return {"version": installed_version()}


@router.get("/whoami")
def whoami(request: Request, identity: Reader) -> WhoamiDocument:
    """Return whose request it is, how that is known, and what the user may do."""
    with seats_of(request).session(identity) as session:
        return {
            "user": session.user,
            "admin": session.is_admin,
            "scope": str(identity.scope),
            "source": identity.source,
        }


@router.get("/health")
def health(request: Request, identity: Anybody) -> HealthDocument:
    """Say that the database answers. Everybody may ask."""
    with seats_of(request).connection():
        return {"database": "ok"}
