"""Browsers: a token becomes a cookie, which is a token of its own with a shorter life."""

from __future__ import annotations

from datetime import timedelta

from fastapi import Request
from starlette.responses import Response

from oarpy.client.platform import tokens
from oarpy.model.errors import NotAllowed
from oarpy.store.platform import tokens as store
from oarpy.store.platform.tokens import NewAction
from oarpy.web.identity import COOKIE, Identity, Unauthenticated, client_address, is_https
from oarpy.web.seats import seats_of


def log_in(request: Request, response: Response, secret: str) -> None:
    """Log the browser in with the token that its user gave: set the cookie on ``response``.

    Raises :class:`Unauthenticated` for a token that is not valid, :class:`NotAllowed` for a form of another site. Both
    ways it is written down.
    """
    _require_own_site(request)
    lifetime = timedelta(seconds=request.app.state.configuration.web.session_lifetime)
    with seats_of(request).connection() as connection:
        row = tokens.find(connection, secret.strip())
        valid = row is not None and row.parent_id is None
        user, number = (row.user_name, row.token_id) if row is not None and valid else ("", None)
        source = "token" if valid else "none"
        new = NewAction(user, source, number, client_address(request), request.method, request.url.path, "log in")
        request.state.action = store.begin_action(connection, new)
        if row is None or not valid:
            raise Unauthenticated("the token is not valid", hint="oartoken new makes one")
        made = tokens.log_in(connection, row, lifetime)
    response.set_cookie(
        COOKIE,
        made.secret,
        max_age=int(lifetime.total_seconds()),
        path=request.scope.get("root_path") or "/",
        secure=is_https(request),
        httponly=True,
        samesite="strict",
    )


def log_out(request: Request, response: Response, identity: Identity) -> None:
    """End the session of the browser, and take its cookie back."""
    if identity.source == "session" and identity.token_id is not None:
        with seats_of(request).connection() as connection:
            store.revoke(connection, [identity.token_id])
    response.delete_cookie(COOKIE, path=request.scope.get("root_path") or "/")


def _require_own_site(request: Request) -> None:
    """Raise :class:`NotAllowed` for a form that the browser says is of another site."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise NotAllowed("the form is not ours", hint="load the page again")
