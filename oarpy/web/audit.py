"""Actions over the web are written down before they are done, and the answers to them afterwards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oarpy.model.errors import OarpyError
from oarpy.store.platform.tokens import NewAction, begin_action, end_action

if TYPE_CHECKING:
    from oarpy.web.identity import Identity
    from oarpy.web.seats import Seats

_PRIVATE = frozenset(
    (
        "array_parameters",
        "command",
        "csrf_token",
        "environment",
        "import_job_key_inline",
        "import_job_key_inline_priv",
        "key_text",
        "notify",
        "param_file",
        "script",
        "token",
    )
)
"""Fields whose values are not written down, with ``_`` for ``-``."""

QUESTION = "/submit/answer"
"""End of the path of a request that changes nothing and comes with every typed key: it is not written down."""

_LONGEST = 2000
"""Characters of the sent fields that are kept."""


async def begin(request: Request, identity: Identity) -> None:
    """Write down the action of a request; raise :class:`oarpy.model.errors.Unreachable` when that cannot be done."""
    if getattr(request.state, "action", None) is not None or identity.source == "none":
        return
    if request.url.path.endswith(QUESTION):
        return
    detail = await _detail(request)
    path = request.url.path[:_LONGEST]
    new = NewAction(
        identity.user, identity.source, identity.token_id, identity.address, request.method, _text(path), detail
    )
    request.state.action = await run_in_threadpool(_begin, request.app.state.seats, new)


def _begin(seats: Seats, new: NewAction) -> int:
    with seats.connection() as connection:
        return begin_action(connection, new)


class Answered:
    """Middleware: writes down the status of the answer to an action."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        status = 0

        async def heard(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, heard)
        finally:
            action = scope.get("state", {}).get("action")
            if action is not None and status:
                # the action itself is on record; the rest is done or not
                with suppress(OarpyError):
                    await run_in_threadpool(_end, scope["app"].state.seats, action, status)


def _end(seats: Seats, action: int, status: int) -> None:
    with seats.connection() as connection:
        end_action(connection, action, status)


async def _detail(request: Request) -> str:
    """Return the sent fields as JSON, without private ones."""
    kind = request.headers.get("content-type", "")
    sent: object = dict(request.query_params)
    if "form" in kind:
        sent = {**dict(request.query_params), **{name: str(value) for name, value in (await request.form()).items()}}
    elif "json" in kind:
        with suppress(ValueError, RecursionError):
            body = json.loads(await request.body())
            sent = {**dict(request.query_params), **body} if isinstance(body, Mapping) else "..."
    if isinstance(sent, Mapping):
        sent = {name: "..." if _is_private(name) else value for name, value in sent.items()}
    return _text(json.dumps(sent, default=str)[:_LONGEST]) if sent else ""


def _is_private(name: str) -> bool:
    return name.strip().lower().replace("-", "_") in _PRIVATE


def _text(given: str) -> str:
    """Return a text that PostgreSQL can keep."""
    return given.encode("utf-8", "replace").decode().replace("\0", " ")
