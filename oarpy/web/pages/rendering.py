"""Answers of pages: templates that escape, headers that let no foreign code in, data for drawings."""

from __future__ import annotations

import gzip
import re
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from itertools import zip_longest
from urllib.parse import quote, unquote

import msgspec
from fastapi import Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, RedirectResponse, Response

from oarpy import installed_version
from oarpy.client.rendering import local_date
from oarpy.model.reasons import Reason, Why, sentence
from oarpy.web.api import PREFIX
from oarpy.web.identity import CSRF_FIELD, Identity, is_https

NAVIGATION = (
    ("c", "/cluster", "Cluster"),
    ("j", "/jobs", "Jobs"),
    ("g", "/gantt", "Gantt"),
    ("p", "/reservations", "Plans"),
    ("q", "/queues", "Queues"),
    ("a", "/accounting", "Accounting"),
    ("d", "/admin", "Admin"),
)
"""Key, path and name of the pages in the head of every page."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STREAM = f"{PREFIX}/events"
"""The stream that tells pages that something changed."""

_SAID = "oarpy_said"
_THEME = "oarpy_theme"
_COMPRESSED_FROM = 2000


def page(
    request: Request, identity: Identity | None, template: str, status: int = 200, **values: object
) -> HTMLResponse:
    """Return a page; ``identity`` None: for a reader who is not logged in."""
    message = unquote(request.cookies.get(_SAID, ""))[:300]
    theme = request.cookies.get(_THEME, "")
    page_of = {
        "/": "/cluster",
        "/nodes": "/cluster",
        "/confirm": "/admin",
        "/maintenance": "/reservations",
        "/submit": "/jobs",
    }
    section = "/" + request.url.path.removeprefix(base(request)).strip("/").partition("/")[0]
    common = {
        "base": base(request),
        "me": identity,
        "csrf": csrf_field(identity),
        "section": page_of.get(section, section),
        "navigation": NAVIGATION,
        "cluster": cluster_name(request),
        "theme": theme if theme in ("light", "dark") else "",
        "version": installed_version(),
        "stream": STREAM,
        "stream_of": "",
        "notice": message,
    }
    text = _templates().get_template(template).render({**common, **values})
    answer = HTMLResponse(text, status, HEADERS)
    if message and "x-live" not in request.headers:
        answer.delete_cookie(_SAID, path=base(request) + "/")
    return answer


def redirect(request: Request, path: str, message: str = "") -> RedirectResponse:
    """Send the browser to a page of ours, with a message about the action."""
    answer = RedirectResponse(base(request) + path, 303, HEADERS)
    if message:
        answer.set_cookie(
            _SAID,
            quote(message[:300]),
            max_age=60,
            path=base(request) + "/",
            httponly=True,
            samesite="strict",
            secure=is_https(request),
        )
    return answer


def data(request: Request, body: bytes) -> Response:
    """Return JSON for a drawing."""
    headers = {**HEADERS, "Vary": "Accept-Encoding"}
    if len(body) >= _COMPRESSED_FROM and "gzip" in request.headers.get("accept-encoding", ""):
        body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
    return Response(body, media_type="application/json", headers=headers)


def encoded(document: object) -> bytes:
    """Return JSON."""
    return msgspec.json.encode(document)


def base(request: Request) -> str:
    """Return the path that a proxy puts before our paths."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def csrf_field(identity: Identity | None) -> Markup:
    """Return the field that an action from our pages carries."""
    word = identity.csrf if identity else ""
    return Markup('<input type="hidden" name="{}" value="{}">').format(CSRF_FIELD, word)


def cluster_name(request: Request) -> str:
    """Return the site's name for this cluster."""
    return str(request.app.state.configuration.mail.cluster_name or socket.gethostname())


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("oarpy.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(_FILTERS)
    return environment


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _in_readers_time(reason: str | Reason) -> Markup:
    """Return a reason, or a sentence with dates in the server's time zone: the page shows dates in the reader's.

    >>> print(_in_readers_time("a <b> from 1975-01-01 00:00:00 on, and 0-0"))  # doctest: +ELLIPSIS
    a &lt;b&gt; from <time datetime="197..." data-at="1..." data-exact>1975-01-01 00:00:00</time> on, and 0-0
    """
    if isinstance(reason, Reason):
        return _dated(reason.subject) if reason.kind is Why.WORDS else _reason(reason)
    return _dated(reason)


def _reason(reason: Reason) -> Markup:
    instants: list[float] = []

    def show(instant: float) -> str:
        instants.append(instant)
        return _PLACE

    texts = sentence(reason, show).split(_PLACE)
    dates = [_TIME.format(_iso(at), int(at), local_date(at)) for at in instants]
    return Markup("").join(part for pair in zip_longest(map(escape, texts), dates, fillvalue="") for part in pair)


def _dated(text: str) -> Markup:
    parts, end = [], 0
    for match in _DATE.finditer(text):
        try:
            at = datetime.fromisoformat(match[0]).astimezone().timestamp()
        except ValueError:  # no date of the calendar
            continue
        parts += [escape(text[end : match.start()]), _TIME.format(_iso(at), int(at), match[0])]
        end = match.end()
    return Markup("").join([*parts, escape(text[end:])])


_DATE = re.compile(r"\b(?:19[7-9]\d|2\d{3})-[01]\d-[0-3]\d [0-2]\d:[0-5]\d(?::[0-5]\d)?\b")
_PLACE = "\0"
"""The mark of the place of an instant: no text of the database has that letter."""
_TIME = Markup('<time datetime="{}" data-at="{}" data-exact>{}</time>')


def duration(seconds: float | None) -> str:
    """Return ``h:mm:ss``, with days from two of them on.

    >>> duration(3725), duration(200000)
    ('1:02:05', '2 d 7:33:20')
    """
    if seconds is None:
        return "-"
    whole = max(0, int(seconds))
    days = whole // 86400 if whole >= 2 * 86400 else 0
    rest = whole - days * 86400
    clock = f"{rest // 3600}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{days} d {clock}" if days else clock


def _number(value: float) -> str:
    return f"{value:,}".replace(",", " ")


_FILTERS: Mapping[str, object] = {
    "date": _date,
    "iso": _iso,
    "duration": duration,
    "number": _number,
    "readers": _in_readers_time,
}
