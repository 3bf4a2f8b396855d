"""The limits of one request, and of the number of requests of a client: refused before anything is looked at."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oarpy.configuration import WebSettings
from oarpy.web.identity import client_address, secret_of

_CLIENTS = 10_000
"""Clients that are remembered; the client that was silent longest is forgotten first."""

_BURST = 10.0
"""Seconds' worth of requests that may come at once."""


class TooLarge(Exception):
    """The body is larger than ``web.largest_body``."""


class RequestLimits:
    """Middleware: bounds bodies and rates. A client is a token or a cookie that has proved valid, else an address."""

    def __init__(self, app: ASGIApp, settings: WebSettings) -> None:
        self._app = app
        self._largest = settings.largest_body
        self._rate = settings.requests_per_minute / 60
        self._left: OrderedDict[bytes, tuple[float, float]] = OrderedDict()
        self._proved: OrderedDict[bytes, None] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        secret = _proof(scope)
        # a guessed secret is no client of its own: guesses count by address
        client = secret if secret in self._proved else client_address(Request(scope)).encode()
        if not self._may(client, time.monotonic()):
            await _refuse(429, "busy", "too many requests")(scope, receive, send)
            return
        await self._bounded(scope, receive, send)
        identity = scope.get("state", {}).get("identity")
        if identity is not None and identity.token_id is not None:
            self._proved[secret] = None
            self._proved.move_to_end(secret)
            if len(self._proved) > _CLIENTS:
                self._proved.popitem(last=False)

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        too_large = _refuse(413, "usage", f"the request is larger than {self._largest} bytes")
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if not announced.isdigit() or int(announced) > self._largest:
            await too_large(scope, receive, send)
            return
        received, answered = 0, False

        async def bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._largest:
                raise TooLarge
            return message

        async def heard(message: Message) -> None:
            nonlocal answered
            if received <= self._largest:
                answered = True
                await send(message)

        # a reader of the body may take the error for its own
        with suppress(TooLarge):
            await self._app(scope, bounded, heard)
        if received > self._largest and not answered:
            await too_large(scope, receive, send)

    def _may(self, client: bytes, now: float) -> bool:
        """Take one request from the client's allowance, which grows with time."""
        if not self._rate:
            return True
        most = max(1.0, self._rate * _BURST)
        left, since = self._left.pop(client, (most, now))
        left = min(most, left + (now - since) * self._rate)
        self._left[client] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > _CLIENTS:
            self._left.popitem(last=False)
        return left >= 1


def _proof(scope: Scope) -> bytes:
    """Return a digest of a request's token, however its header is written, or of its cookies beside it."""
    return hashlib.sha256(" ".join(secret_of(Request(scope))).encode("utf-8", "surrogatepass")).digest()


def _refuse(status: int, code: str, message: str) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message, "hint": ""}}, status, {"Retry-After": "1"})
