"""Logging in with a token, which gives the browser a session of its own, and logging out."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from starlette.responses import Response

from oarpy.client.platform import tokens
from oarpy.store.platform.tokens import NewAction, begin_action, revoke
from oarpy.web.identity import COOKIE, Anybody, client_address, is_https, require_own_origin
from oarpy.web.pages.rendering import base, page, redirect
from oarpy.web.seats import seats_of

router = APIRouter()

_LONGEST_TOKEN = 200
_REFUSED = "This token is not valid: it is unknown, expired or revoked."


@router.get("/login")
def form(request: Request, next: str = "/") -> Response:
    """Return the form."""
    return page(request, None, "log_in.html", next=_own_path(next), problem="")


@router.post("/login", dependencies=[Depends(require_own_origin)])
def log_in(request: Request, token: Annotated[str, Form()] = "", next: Annotated[str, Form()] = "/") -> Response:
    """Begin a session, or show that the token is not valid."""
    secret = token.strip()
    lifetime = timedelta(seconds=request.app.state.configuration.web.session_lifetime)
    with seats_of(request).connection() as connection:
        parent = tokens.find(connection, secret) if len(secret) <= _LONGEST_TOKEN and secret.isascii() else None
        user, number = ("", None) if parent is None else (parent.user_name, parent.token_id)
        # the answer is written down when it is given, as that of other actions
        new = NewAction(user, "none", number, client_address(request), "POST", "/login", "")
        request.state.action = begin_action(connection, new)
        valid = parent is not None and parent.parent_id is None
        session = tokens.log_in(connection, parent, lifetime) if parent is not None and valid else None
    if session is None:
        return page(request, None, "log_in.html", 401, next=_own_path(next), problem=_REFUSED)
    answer = redirect(request, _own_path(next))
    answer.set_cookie(
        COOKIE,
        session.secret,
        max_age=int(lifetime.total_seconds()),
        path=base(request) + "/",
        httponly=True,
        samesite="strict",
        secure=is_https(request),
    )
    return answer


@router.post("/logout", dependencies=[Depends(require_own_origin)])
def log_out(request: Request, identity: Anybody) -> Response:
    """End the session."""
    if identity.source == "session" and identity.token_id is not None:
        with seats_of(request).connection() as connection:
            revoke(connection, [identity.token_id])
    answer = redirect(request, "/login")
    answer.delete_cookie(COOKIE, path=base(request) + "/")
    return answer


def _own_path(path: str) -> str:
    """Return a path of ours, never another site's."""
    own = path.startswith("/") and path[1:2] not in ("/", "\\") and path.isprintable() and "\\" not in path
    return path if own else "/"
