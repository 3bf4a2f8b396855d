"""The endpoints below ``/api/v1``: each opens a session and calls what the command of the same purpose calls.

``session`` of the application's seats is how an endpoint gets at the database. May import ``oarpy.web`` but its pages.
"""

from __future__ import annotations

from fastapi import APIRouter

from oarpy.web.api import audit, events, jobs, past, platform, projects, rules, service, submission, tokens

PREFIX = "/api/v1"


AREAS = (service, jobs, submission, platform, projects, past, events, rules, tokens, audit)


def router() -> APIRouter:
    """Return all endpoints."""
    whole = APIRouter(prefix=PREFIX)
    for area in AREAS:
        whole.include_router(area.router)
    return whole
