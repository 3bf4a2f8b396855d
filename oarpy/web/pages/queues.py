"""Queues, and the fair share of users and projects."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from oarpy.client.platform.projects import seen
from oarpy.store.pages import shares
from oarpy.store.pages.shares import QueueLoad
from oarpy.store.platform.queues import queues as all_queues
from oarpy.web.identity import Reader
from oarpy.web.pages.rendering import page
from oarpy.web.seats import seats_of

router = APIRouter()

_EMPTY = QueueLoad(0, 0, 0, 0)


@router.get("/queues")
def queues(request: Request, identity: Reader) -> Response:
    """Return the page."""
    with seats_of(request).session(identity) as session:
        loads = shares.queue_loads(session.connection)
        loaded = [(queue, loads.get(queue.name, _EMPTY)) for queue in all_queues(session.connection)]
        shared = shares.shares(session.connection)
        days = shares.window(session.connection) / 86400
        paying = bool(seen(session))
    fair = [queue.name for queue, _ in loaded if queue.active and queue.policy == "fairshare"]
    by_kind = [
        (title, kind, [share for share in shared if share.kind == kind])
        for title, kind in (("Users", "user"), ("Projects", "project"))
    ]
    return page(
        request,
        identity,
        "queues.html",
        queues=loaded,
        shares=by_kind,
        window=f"{days:g} days",
        fair=fair,
        paying=paying,
    )
