"""Waiting for news of the stream: a notification says when to look, the cursor marks the new events."""

from __future__ import annotations

import time
from collections.abc import Callable

from oarpy.client.caller import Streams, current
from oarpy.client.events.stream import EventBatch, cursor_of, next_batch
from oarpy.client.session import Session, open_session
from oarpy.store.notifications import EVENTS, Ear
from oarpy.transport.wakeup import readable

_UNHEARD = 10.0
"""Seconds after which a listener looks even without a notification."""

_LOOK_PERIOD = 15.0
"""Seconds between two looks of a command that may keep no connection to the database meanwhile."""

_PAUSE = 0.05
"""Seconds between two looks however many notifications arrive."""

Hear = Callable[[EventBatch], bool]
"""Takes new events, in order; returns whether to go on."""


Begun = Callable[[Session, str], bool]
"""Takes the first cursor, before any event; returns whether to listen at all."""


def listen(command: str, since: str | None, streams: Streams, hear: Hear, begun: Begun) -> None:
    """Give all events after ``since`` (a cursor, or None for now) to ``hear`` until it returns False.

    The user's leaving raises, as does a cursor that is gone. A listener holds only the batch that ``hear`` has: there
    is no queue.
    """
    cursor = None
    while True:
        hears = current().may_keep_connection()
        with open_session(command) as session:
            ear = Ear(session.connection, EVENTS)
            if cursor is None:
                cursor = cursor_of(session.connection, since)
                if not begun(session, str(cursor)):
                    return
            while True:
                batch = next_batch(session.connection, cursor)
                if not hear(batch):
                    return
                cursor = batch.cursor
                if not batch.complete:
                    continue
                if not hears:
                    break
                _hear_of_news(ear, streams)
        wait(_LOOK_PERIOD, [], streams)


def _hear_of_news(ear: Ear, streams: Streams) -> None:
    """Return when something has happened, or after a while: a notification may be missed."""
    deadline = time.monotonic() + _UNHEARD
    while not ear.drain() and (seconds := deadline - time.monotonic()) > 0:
        if wait(seconds, [ear.fileno()], streams):
            ear.listen()
    wait(_PAUSE, [], streams)


def wait(seconds: float, files: list[int], streams: Streams) -> bool:
    """Wait until one of ``files`` is readable; raise if the user leaves."""
    heard = [] if streams.ended else [streams.fileno()]
    ready = readable([*files, *heard], seconds)
    if not streams.ended and streams.fileno() in ready:
        streams.receive()
    return any(file in ready for file in files)
