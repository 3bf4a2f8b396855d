"""The application: its parts in their order, and the answers that stand for errors of oarpy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

import psycopg
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response

from oarpy.configuration import Configuration
from oarpy.model.errors import AdmissionRefused, NotAllowed, NotFound, OarpyError, Unreachable, UsageError
from oarpy.web import answers, api, oarapi
from oarpy.web.api import metrics
from oarpy.web.audit import Answered
from oarpy.web.event_hub import EventHub
from oarpy.web.identity import Unauthenticated
from oarpy.web.limits import RequestLimits
from oarpy.web.seats import Seats

log = structlog.get_logger()

STATUSES: dict[type[OarpyError], int] = {
    Unauthenticated: 401,
    NotAllowed: 403,
    NotFound: 404,
    AdmissionRefused: 422,
    UsageError: 400,
    Unreachable: 503,
    OarpyError: 409,
}
"""HTTP status by kind of error; the first that fits counts.

Other errors are about a job in the wrong state, and the like.
"""


class Application(FastAPI):
    """FastAPI with the answers of the operations in its description."""

    def openapi(self) -> dict[str, Any]:
        """Return the document ``/openapi.json``."""
        if self.openapi_schema is not None:
            return self.openapi_schema
        document = super().openapi()
        operations = [
            *(
                operation
                for area in api.AREAS
                for operation in answers.operations(area.router, answers.ErrorDocument, api.PREFIX)
            ),
            *answers.operations(metrics.router, answers.ErrorDocument),
            *answers.operations(oarapi.router, oarapi.OarErrorDocument),
        ]
        answers.describe(document, operations)
        return document


def application(configuration: Configuration) -> FastAPI:
    """Return the application. It connects to the database when it is first asked for something."""
    seats, hub = Seats(configuration), EventHub(configuration)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        hub.close()
        seats.close()

    app = Application(
        title="oarpy",
        version="1",  # of the interface, whose version begins its paths: /api/v1
        lifespan=lifespan,
        root_path=configuration.web.root_path,
        docs_url=None,  # FastAPI's own pages load scripts from elsewhere: oarpy.web.pages.operations is ours
        redoc_url=None,
    )
    app.state.configuration, app.state.seats, app.state.event_hub = configuration, seats, hub
    app.add_middleware(oarapi.WithoutExtension)
    app.add_middleware(Answered)
    app.add_middleware(RequestLimits, settings=configuration.web)
    app.add_exception_handler(OarpyError, _refused)
    app.add_exception_handler(psycopg.Error, _failed_in_database)
    app.add_exception_handler(UnicodeError, _no_text)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _plain)
    app.include_router(api.router())
    app.include_router(oarapi.router)
    app.include_router(metrics.router)
    if find_spec("oarpy.web.pages.routes") is not None:
        _add_pages(app)
    return app


def _add_pages(app: FastAPI) -> None:
    from importlib import import_module

    import_module("oarpy.web.pages.routes").add(app)


def status_of(error: OarpyError) -> int:
    """Return the HTTP status that stands for an error."""
    return next(status for kind, status in STATUSES.items() if isinstance(error, kind))


def _answer(request: Request, status: int, code: str, message: str, hint: str = "") -> JSONResponse:
    """Return an error in our form, or in that of OAR below its paths."""
    headers = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "2"}}.get(status)
    # the content of a request need not be text
    shown = {name: value.encode("utf-8", "replace").decode() for name, value in (("message", message), ("hint", hint))}
    if f"{oarapi.PREFIX}/" in request.url.path:
        whole = f"{shown['message']} ({shown['hint']})" if hint else shown["message"]
        return JSONResponse({"code": status, "title": f"ERROR {status} - {code}", "message": whole}, status, headers)
    return JSONResponse({"error": {"code": code, **shown}}, status, headers)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, OarpyError)
    return _answer(request, status_of(error), error.code, error.message, error.hint)


async def _failed_in_database(request: Request, error: Exception) -> Response:
    """Answer for a request that the database refused, such as a value that it has no room for."""
    if isinstance(error, psycopg.DataError | psycopg.errors.RaiseException | psycopg.IntegrityError):
        return _answer(request, 400, "usage", error.diag.message_primary or "the database refused a value")
    log.error("request failed", path=request.url.path, exc_info=error)
    return _answer(request, 503, "unreachable", "the database cannot be reached", "try again")


async def _no_text(request: Request, error: Exception) -> Response:
    return _answer(request, 400, "usage", "the request holds characters that are no text")


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return _answer(request, 422, "usage", f"{where}: {first['msg']}"[:500], "see /openapi.json")


async def _plain(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 401: "unauthenticated", 403: "not_allowed"}.get(error.status_code, "usage")
    answer = _answer(request, error.status_code, code, str(error.detail))
    answer.headers.update(error.headers or {})
    return answer
