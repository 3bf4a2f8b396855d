"""Whether a form comes from our own pages, as the browser says: it holds where there is no session to carry a word."""

from __future__ import annotations

from urllib.parse import urlsplit

from fastapi import Request

from oarpy.model.errors import NotAllowed


def require_own_origin(request: Request) -> None:
    """Raise :class:`NotAllowed` for a request that a page of another site makes a browser send."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    foreign = site not in (None, "same-origin", "none")
    if origin is not None and origin != "null":
        foreign = foreign or urlsplit(origin).netloc != request.headers.get("host")
    if foreign:
        raise NotAllowed("the action does not come from our pages", hint="load the page again")
