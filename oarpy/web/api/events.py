"""The stream of events as server-sent events."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from oarpy.client.events.stream import NOW, concerns, cursor_of, next_batch
from oarpy.store.event_stream import Cursor, CursorGone
from oarpy.web.answers import Route
from oarpy.web.event_hub import EventHub, RenderedBatch, rendered
from oarpy.web.identity import Reader
from oarpy.web.seats import Busy, Seats, seats_of

router = APIRouter(tags=["events"], route_class=Route)

_MOST = 64
"""Streams of one user at one time; a page that is open has one."""

_LONGEST = 600.0
"""Seconds after which a stream ends, so that its listener comes with a token that is still valid."""

_SILENCE = 15.0
"""Seconds after which a comment shows that the stream lives."""

_open: Counter[str] = Counter()

Since = Annotated[str | None, Query(description="go on after this cursor; Last-Event-ID wins; default: now")]
Jobs = Annotated[list[int] | None, Query(alias="job", description="tell of these jobs alone")]
Owner = Annotated[str | None, Query(description="tell of the jobs of this user alone")]
Once = Annotated[bool, Query(description="end when all was told that had happened")]


@dataclass(frozen=True, slots=True)
class _Wish:
    """The events that a listener wants."""

    jobs: frozenset[int]
    owner: str | None
    once: bool

    def text(self, batch: RenderedBatch) -> str:
        """Return the events that are wanted."""
        return "".join(text for event, text in batch.events if concerns(event, self.jobs, self.owner))


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(
    request: Request,
    identity: Reader,
    since: Since = None,
    jobs: Jobs = None,
    owner: Owner = None,
    once: Once = False,
    last_event_id: Annotated[str | None, Header()] = None,
) -> StreamingResponse:
    """Tell what happens, as it happens (text/event-stream).

    The id of an event is its cursor: a browser sends it when it comes back, and the next event after it comes next. An
    event ``gone`` says that what came between is not known any more: look at the present state again.
    """
    seats, hub = seats_of(request), hub_of(request)
    place = _Place(identity.user)
    try:
        hub.begin()
        cursor = await _begin(seats, hub, last_event_id or since)
    except BaseException:
        place.leave()
        raise
    wish = _Wish(frozenset(jobs or ()), owner, once)
    return _Listening(_stream(seats, hub, cursor, wish), place)


class _Place:
    """One of the streams that a user may have; it is taken before anything is waited for."""

    def __init__(self, user: str) -> None:
        if _open[user] >= _MOST:
            raise Busy(f"'{user}' listens {_MOST} times", hint="close some of the streams")
        _open[user] += 1
        self._user = user

    def leave(self) -> None:
        """Let another stream of the user in."""
        _open[self._user] -= 1
        if not _open[self._user]:
            del _open[self._user]


class _Listening(StreamingResponse):
    """A stream that leaves its place when it ends, begun or not."""

    def __init__(self, stream: AsyncIterator[str], place: _Place) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(stream, media_type="text/event-stream", headers=headers)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._place.leave()


def hub_of(request: Request) -> EventHub:
    """Return the hub of the application that answers a request."""
    hub: EventHub = request.app.state.event_hub
    return hub


async def _stream(seats: Seats, hub: EventHub, cursor: Cursor, wish: _Wish) -> AsyncIterator[str]:
    end = time.monotonic() + _LONGEST
    yield _stands("begin", cursor)
    while time.monotonic() < end:
        batch = None if wish.once else hub.after(cursor)
        if batch is None:
            try:
                batch = await run_in_threadpool(
                    _read, seats, cursor if wish.once else cursor.towards(hub.head or cursor)
                )
            except CursorGone:
                cursor = await _begin(seats, hub, None)
                yield _stands("gone", cursor)
                continue
        cursor = batch.cursor
        if text := wish.text(batch):
            yield text
        if batch.complete and wish.once:
            return
        if batch.complete and hub.after(cursor) is None:
            await hub.news(_SILENCE)
            yield ": \n\n"  # it lives


def _stands(kind: str, cursor: Cursor) -> str:
    return f"event: {kind}\nid: {cursor}\ndata: {json.dumps({'cursor': str(cursor), 'kind': kind})}\n\n"


async def _begin(seats: Seats, hub: EventHub, since: str | None) -> Cursor:
    """Return the cursor that the listener names, else how far the hub has read."""
    if since in (None, "", NOW) and hub.head is not None:
        return hub.head
    return await run_in_threadpool(_cursor, seats, since)


def _cursor(seats: Seats, since: str | None) -> Cursor:
    with seats.connection() as connection:
        return cursor_of(connection, since)


def _read(seats: Seats, cursor: Cursor) -> RenderedBatch:
    with seats.connection() as connection:
        return rendered(next_batch(connection, cursor))
