"""One bag of tasks: by when it is promised to be done, how its tasks stand, and every change of the promise."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import Response

from oarpy.client.jobs.views.bag_report import bag_state
from oarpy.web.identity import Reader
from oarpy.web.pages.job import require_id
from oarpy.web.pages.rendering import page
from oarpy.web.seats import seats_of

router = APIRouter()

_WIDTH = 600.0
_FAILED = "Failed"
"""The count of ``bag_state`` besides the states of jobs."""


@router.get("/bags/{bag_id:int}")
def bag(request: Request, identity: Reader, bag_id: int) -> Response:
    """Return the page."""
    require_id(bag_id, "bag")
    with seats_of(request).session(identity) as session:
        reading = bag_state(session, bag_id)
    drawn, x = [], 0.0
    tasks = sum(reading.states.values()) or 1
    for state, count in reading.states.items():
        width = count / tasks * _WIDTH
        drawn.append((state, "Error" if state == _FAILED else state, count, round(x, 2), round(width, 2)))
        x += width
    refused = any(change.kind == "REFUSED" for change in reading.changes)
    return page(
        request,
        identity,
        "bag.html",
        stream_of=f"?owner={quote(reading.bag.user)}",
        bag=reading.bag,
        standing="refused" if refused else "over" if reading.bag.ended is not None else "goes on",
        states=drawn,
        profile=reading.profile,
        changes=reading.changes,
    )
