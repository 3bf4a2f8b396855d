"""All pages, their static files, and their messages about errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from oarpy.model.errors import OarpyError
from oarpy.web.app import status_of
from oarpy.web.identity import COOKIE, Unauthenticated
from oarpy.web.pages import (
    accounting,
    actions,
    administration,
    bag,
    cluster,
    gantt,
    job,
    jobs,
    log_in,
    node,
    operations,
    plans,
    projects,
    queues,
    submission,
)
from oarpy.web.pages.cluster import shared_reading, shared_week
from oarpy.web.pages.gantt import SharedAxis
from oarpy.web.pages.rendering import base, page, redirect

AREAS = (
    cluster,
    jobs,
    job,
    bag,
    submission,
    gantt,
    queues,
    projects,
    plans,
    accounting,
    node,
    administration,
    actions,
    log_in,
    operations,
)

_TITLES = {400: "That makes no sense", 403: "Not allowed", 404: "Not found", 503: "Not now"}

Handler = Callable[[Request, Any], Awaitable[Response]]


class OwnFiles(StaticFiles):
    """The shipped files, which browsers keep for a day: their addresses carry the version."""

    def file_response(self, *arguments: Any, **named: Any) -> Response:
        """Answer with a file."""
        answer = super().file_response(*arguments, **named)
        answer.headers["Cache-Control"] = "public, max-age=86400"
        answer.headers["X-Content-Type-Options"] = "nosniff"
        return answer


def add(app: FastAPI) -> None:
    """Hook the pages into the application; errors of theirs are pages too."""
    whole = APIRouter(include_in_schema=False, tags=["pages"])
    for area in AREAS:
        whole.include_router(area.router)
    app.include_router(whole)
    app.mount("/static", OwnFiles(directory=str(files("oarpy.web").joinpath("static"))), name="static")
    app.state.cluster_reading, app.state.cluster_week = shared_reading(), shared_week()
    app.state.gantt_axis = SharedAxis()
    for kind in (OarpyError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _as_page(app.exception_handlers[kind]))


def _as_page(otherwise: Any) -> Handler:
    """Return a handler that answers as a page where a page was asked for, and as ``otherwise`` elsewhere."""

    async def handle(request: Request, error: Exception) -> Response:
        if "text/html" not in request.headers.get("accept", "") or _is_interface(request):
            answer: Response = await otherwise(request, error)
            return answer
        if isinstance(error, Unauthenticated):
            return _to_log_in(request)
        if isinstance(error, OarpyError):
            return _error_page(request, status_of(error), error.message, error.hint)
        if isinstance(error, HTTPException):
            return _error_page(request, error.status_code, str(error.detail), "")
        return _error_page(request, 400, "A value in the address or the form is not what it should be.", "")

    return handle


def _is_interface(request: Request) -> bool:
    path = request.url.path.removeprefix(base(request))
    return path.startswith(("/api/", "/oarapi", "/data/"))


def _to_log_in(request: Request) -> Response:
    """Ask the reader to log in; then the same page comes."""
    path = request.url.path.removeprefix(base(request))
    query = f"?{request.url.query}" if request.url.query else ""
    wanted = path + query if request.method == "GET" else "/"
    answer = redirect(request, f"/login?next={quote(wanted)}" if wanted != "/" else "/login")
    # the cookie is no longer valid
    answer.delete_cookie(COOKIE, path=base(request) + "/")
    return answer


def _error_page(request: Request, status: int, message: str, hint: str) -> Response:
    identity = getattr(request.state, "identity", None)
    title = _TITLES.get(status, "That did not work")
    return page(request, identity, "error.html", status, title=title, message=message, hint=hint)
