"""The REST interface of OAR 2.5, for programs written for it: its paths below ``/oarapi`` and its shapes, as JSON.

What is listed has ``items``, ``total``, ``offset`` and ``links``. A path may end in ``.json``. ``endpoints`` has the
paths, ``shapes`` what they return. May import ``oarpy.web.api`` and all below it.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from oarpy.web.oarapi.endpoints import router
from oarpy.web.oarapi.shapes import PREFIX, OarErrorDocument

__all__ = ["PREFIX", "OarErrorDocument", "WithoutExtension", "router"]


class WithoutExtension:
    """Middleware: a path of OAR's that ends in ``.json`` is the path without it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] == "http" and f"{PREFIX}/" in scope["path"]:
            scope["path"] = scope["path"].removesuffix(".json")
        await self._app(scope, receive, send)
