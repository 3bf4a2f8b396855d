"""The sender of a request, and the most that this user may do, by a token, a browser's session or the kernel's word."""

from __future__ import annotations

import hashlib
import hmac
import pwd
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from oarpy.client.platform import tokens
from oarpy.client.platform.tokens import Scope
from oarpy.model.errors import NotAllowed, OarpyError
from oarpy.store.platform.tokens import TokenRow, note_use
from oarpy.web import audit

if TYPE_CHECKING:
    from oarpy.web.seats import Seats

COOKIE = "oarpy_session"
"""Name of the cookie of a browser that is logged in: HttpOnly, SameSite=Strict, Secure over HTTPS."""

CSRF_HEADER, CSRF_FIELD = "x-csrf-token", "csrf_token"
"""The header and the field in which an action from a browser carries the word that only our own pages know."""

_OWN_HOSTS = frozenset(("oarpy", "localhost", "127.0.0.1", "::1"))
"""Hosts that a caller known by the kernel may name, besides the machine's name."""

_SAFE = frozenset(("GET", "HEAD", "OPTIONS"))


class Unauthenticated(OarpyError):
    """The request does not prove its user."""

    code = "unauthenticated"
    exit_status = 5


@dataclass(frozen=True, slots=True)
class Identity:
    """The user of a request. ``source`` is token, session, peer, or none; then ``user`` is empty."""

    user: str
    uid: int
    scope: Scope
    source: str
    address: str
    token_id: int | None = None
    csrf: str = ""


async def identify(request: Request) -> Identity:
    """Return the sender of the request, nobody included; an action by an identified user is written down first.

    Raises :class:`Unauthenticated` for a proof that proves nothing, :class:`NotAllowed` for an action from a browser
    that our pages did not make.
    """
    known: Identity | None = getattr(request.state, "identity", None)
    if known is not None:
        return known
    identity = await run_in_threadpool(_identity, request)
    if request.method not in _SAFE:
        if identity.source == "session":
            await _check_csrf(request, identity.csrf)
        if identity.source == "peer":
            require_own_origin(request)
        await audit.begin(request, identity)
    request.state.identity = identity
    return identity


def requires(scope: Scope) -> Callable[[Identity], Identity]:
    """Return the dependency that refuses unknown senders, and senders whose token is for less than ``scope``."""

    def check(identity: Annotated[Identity, Depends(identify)]) -> Identity:
        if identity.source == "none":
            raise Unauthenticated("the request does not say whose it is", hint="send a token: oartoken new")
        if not identity.scope.allows(scope):
            raise NotAllowed(f"the token is for '{identity.scope}' only", hint=f"this needs one of scope {scope}")
        return identity

    return check


Anybody = Annotated[Identity, Depends(identify)]
Reader = Annotated[Identity, Depends(requires(Scope.READ))]
Submitting = Annotated[Identity, Depends(requires(Scope.SUBMIT))]
Administering = Annotated[Identity, Depends(requires(Scope.ADMIN))]


def csrf_token(secret: str) -> str:
    """Return the word that pages of this session carry in their actions; other sites cannot read or guess it."""
    return hmac.new(secret.encode(), b"csrf", hashlib.sha256).hexdigest()


def _identity(request: Request) -> Identity:
    address = client_address(request)
    secret, source = secret_of(request)
    if secret:
        return _of_token(request, secret, source, address)
    uid = _peer(request)
    if uid is None:
        return Identity("", -1, Scope.READ, "none", address)
    _require_own_host(request)
    try:
        return Identity(pwd.getpwuid(uid).pw_name, uid, Scope.ADMIN, "peer", address)
    except KeyError:
        raise Unauthenticated(f"user id {uid} has no account on this machine") from None


def secret_of(request: Request) -> tuple[str, str]:
    """Return the secret that a request carries, empty without one, and whether it is of a token or of a session."""
    word, _, value = request.headers.get("authorization", "").partition(" ")
    if word.lower() == "bearer" and value.strip():
        return value.strip(), "token"
    return request.cookies.get(COOKIE, ""), "session"


def _of_token(request: Request, secret: str, source: str, address: str) -> Identity:
    seats: Seats = request.app.state.seats
    with seats.connection() as connection:
        row = tokens.find(connection, secret)
        # the secret of a cookie is none of an Authorization header, nor the other way round
        if row is None or (row.parent_id is not None) != (source == "session"):
            raise Unauthenticated("the token is not valid", hint="it is unknown, expired or revoked")
        note_use(connection, row.token_id, address)
    return Identity(row.user_name, _uid(row), Scope(row.scope), source, address, row.token_id, csrf_token(secret))


def _uid(row: TokenRow) -> int:
    try:
        return pwd.getpwnam(row.user_name).pw_uid
    except KeyError:
        raise Unauthenticated(f"'{row.user_name}' has no account on this machine") from None


async def _check_csrf(request: Request, expected: str) -> None:
    given = request.headers.get(CSRF_HEADER)
    if given is None and "form" in request.headers.get("content-type", ""):
        field = (await request.form()).get(CSRF_FIELD)
        given = field if isinstance(field, str) else None
    if not hmac.compare_digest((given or "").encode(), expected.encode()):
        raise NotAllowed("the action does not come from our pages", hint="load the page again")


def require_own_origin(request: Request) -> None:
    """Raise :class:`NotAllowed` for a request that a page of another site makes a browser send."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    foreign = site not in (None, "same-origin", "none")
    if origin is not None and origin != "null":
        foreign = foreign or urlsplit(origin).netloc != request.headers.get("host")
    if foreign:
        raise NotAllowed("the action does not come from our pages", hint="load the page again")


def _require_own_host(request: Request) -> None:
    """Raise :class:`NotAllowed` for a name that is not this machine's.

    Over a forwarded port, the pages of any site can reach the socket in a browser: a site may give its name the address
    of this machine.
    """
    names = {*_OWN_HOSTS, socket.gethostname(), *request.app.state.configuration.web.host_names}
    given = request.headers.get("host", "")
    with suppress(ValueError):
        name = urlsplit(f"//{given}").hostname
        if name is None or name in {host.lower() for host in names}:
            return
    raise NotAllowed(f"'{given[:80]}' is not a name of this machine", hint="web.host_names has more names")


def _peer(request: Request) -> int | None:
    """Return the user that connected to the Unix socket; None for a proxy that speaks for others."""
    host = request.client.host if request.client else ""
    if not host.startswith("uid:") or _is_proxied(request):
        return None
    return int(host.removeprefix("uid:"))


def _is_proxied(request: Request) -> bool:
    """Tell whether a proxy passes the request on: a known proxy, or one that says so itself."""
    names = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")
    return _is_known_proxy(request) or any(name in request.headers for name in names)


def _is_known_proxy(request: Request) -> bool:
    host = request.client.host if request.client else ""
    settings = request.app.state.configuration.web
    if not host.startswith("uid:"):
        return host in settings.proxy_addresses
    try:
        return pwd.getpwuid(int(host.removeprefix("uid:"))).pw_name in settings.proxy_users
    except KeyError:
        return False


def client_address(request: Request) -> str:
    """Return the address of the request: the last that a known proxy gives, else the address of the peer."""
    host = request.client.host if request.client else ""
    forwarded = request.headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
    if forwarded and _is_known_proxy(request):
        with suppress(ValueError):
            return str(ip_address(forwarded))
    return host


def is_https(request: Request) -> bool:
    """Tell whether the browser speaks HTTPS, to us or to a known proxy."""
    if _is_known_proxy(request):
        return request.headers.get("x-forwarded-proto", request.url.scheme) == "https"
    return request.url.scheme == "https"
