"""The page, and its requests. Every path begins with the token; any other path gets 403."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from hmac import compare_digest
from importlib.resources import files
from typing import Any

import msgspec
from fastapi import APIRouter, FastAPI, Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles

from oarpy import installed_version
from oarpy.model.errors import OarpyError
from oarpy.simulation.stepping.sources import Source
from oarpy.web.pages.rendering import HEADERS
from oarpy.web.stepping.playing import Playing, Wish

_HEADERS = {**HEADERS, "Referrer-Policy": "no-referrer"}
_MOST_TEXT = 64 << 20
"""The most bytes that a page may send."""

router = APIRouter()


class Edit(msgspec.Struct):
    """Another text of a scenario."""

    scenario: str
    text: str


class Comparison(msgspec.Struct):
    """Two choices for one scenario."""

    scenario: str
    left: dict[str, str]
    right: dict[str, str]


def application(sources: Sequence[Source], token: str) -> FastAPI:
    """Return the application for some scenarios."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.state.playing, app.state.token = Playing(sources), token
    app.include_router(router, prefix=f"/{token}")
    static = StaticFiles(directory=str(files("oarpy.web").joinpath("static")))
    app.mount(f"/{token}/static", static, name="static")
    app.middleware("http")(_guarded)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    return app


async def _guarded(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Refuse a request without the token; answer an error with a line, and go on."""
    given = request.url.path.split("/")[1]
    if not compare_digest(given.encode("utf-8", "replace"), request.app.state.token.encode()):
        return PlainTextResponse("Not allowed: use the link that the command printed.\n", 403, _HEADERS)
    try:
        answer = await call_next(request)
    except OarpyError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return _json({"error": f"{error.message}{hint}"}, 400)
    except msgspec.MsgspecError as error:
        return _json({"error": f"no such request: {error}"}, 400)
    except Exception as error:  # a plug-in may raise anything
        return _json({"error": f"the run stopped: {type(error).__name__}: {error}"[:500]}, 400)
    answer.headers.update(_HEADERS)
    return answer


@router.get("/")
def show(request: Request) -> HTMLResponse:
    """Return the page."""
    playing: Playing = request.app.state.playing
    scenarios = [(number, source.name) for number, source in playing.given.items()]
    theme = request.cookies.get("oarpy_theme", "")
    text = (
        _templates()
        .get_template("stepping.html")
        .render(
            base=f"/{request.app.state.token}",
            version=installed_version(),
            scenarios=scenarios,
            theme=theme if theme in ("light", "dark") else "",
        )
    )
    return HTMLResponse(text)


@router.get("/scenario/{name}")
def describe(request: Request, name: str) -> Response:
    """Return the facts of a scenario that are known beforehand."""
    source = request.app.state.playing.source(name)
    return _json(
        {
            "name": source.name,
            "system": source.system,
            "text": source.text,
            "choices": [asdict(choice) for choice in source.choices()],
            "jobs": source.jobs(),
        }
    )


@router.post("/edit")
async def edit(request: Request) -> Response:
    """Take another text of a scenario; answer with its id."""
    edited = await _content(request, Edit)
    name = await run_in_threadpool(request.app.state.playing.edit, edited.scenario, edited.text)
    return _json({"scenario": name})


@router.post("/go")
async def go(request: Request) -> Response:
    """Go somewhere in a run; answer with the differences there."""
    return _json(await run_in_threadpool(request.app.state.playing.go, await _content(request, Wish)))


@router.post("/part")
async def part(request: Request) -> Response:
    """Look for the first event at which two choices differ."""
    comparison = await _content(request, Comparison)
    difference = await run_in_threadpool(
        request.app.state.playing.part, comparison.scenario, comparison.left, comparison.right
    )
    return _json(difference)


async def _content(request: Request, kind: type[Any]) -> Any:
    """Return the content of a request."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_TEXT:
            raise OarpyError("the text is too long", hint=f"at most {_MOST_TEXT >> 20} MiB")
    return msgspec.json.decode(bytes(body), type=kind)


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, _HEADERS, "application/json")


def _templates() -> Environment:
    return Environment(loader=PackageLoader("oarpy.web"), autoescape=True, undefined=StrictUndefined)
