"""One reader of the stream of events for all listeners of this process.

A listener keeps a cursor and nothing else. The hub keeps the last batches by the cursor that each begins at; a listener
that is further back reads the database. So a slow listener costs no memory.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

import psycopg
import structlog

from oarpy.client.events.event_text import server_sent
from oarpy.client.events.stream import ClusterEvent, EventBatch, cursor_of, next_batch
from oarpy.configuration import Configuration
from oarpy.model.errors import OarpyError
from oarpy.store.database import Connection, connect, database_dsn
from oarpy.store.event_stream import Cursor
from oarpy.store.notifications import EVENTS, Ear
from oarpy.transport.wakeup import readable

log = structlog.get_logger()

_KEPT = 20_000
"""Events that are kept for listeners, about; a batch that begins at no kept cursor is read again."""

_UNHEARD = 10.0
"""Seconds after which the hub looks even without a notification, and after which it tries a lost database again."""

_PAUSE = 0.05
"""Seconds between two looks however many notifications arrive."""


@dataclass(frozen=True, slots=True)
class RenderedBatch:
    """Events with their text for HTTP, made once for all listeners; ``cursor`` is after them."""

    events: tuple[tuple[ClusterEvent, str], ...]
    cursor: Cursor
    complete: bool


def rendered(batch: EventBatch) -> RenderedBatch:
    """Return a batch with the texts of its events."""
    return RenderedBatch(
        tuple((event, server_sent(event)) for event in batch.events), batch.cursor, complete=batch.complete
    )


class EventHub:
    """Reads in a thread, which begins with the first listener."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._kept: OrderedDict[str, RenderedBatch] = OrderedDict()
        self._weight = 0
        self._head: Cursor | None = None
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._closed = threading.Event()

    def begin(self) -> None:
        """Begin to read, at the first listener."""
        with self._guard:
            if self._thread is None:
                self._thread = threading.Thread(target=self._read, name="events", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()

    def after(self, cursor: Cursor) -> RenderedBatch | None:
        """Return the batch after ``cursor`` if it is kept."""
        with self._guard:
            return self._kept.get(str(cursor))

    @property
    def head(self) -> Cursor | None:
        """The cursor after the last batch that was read and kept; None before the first."""
        return self._head

    async def news(self, seconds: float) -> None:
        """Return when something may have happened since the call began, or after ``seconds``."""
        entry = (asyncio.get_running_loop(), asyncio.Event())
        with self._guard:
            self._waiting.add(entry)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(entry[1].wait(), seconds)
        finally:
            with self._guard:
                self._waiting.discard(entry)

    def _read(self) -> None:
        while not self._closed.is_set():
            try:
                settings = self._configuration
                dsn, timeout = database_dsn(settings), settings.database.connect_timeout
                with connect(dsn, "web events", timeout=timeout) as connection:
                    self._follow(connection)
            except (OarpyError, psycopg.Error) as error:
                log.warning("the stream of events broke off", error=str(error))
                self._closed.wait(_UNHEARD)

    def _follow(self, connection: Connection) -> None:
        """Keep the events from now on. Listeners of earlier events read the database once."""
        ear = Ear(connection, EVENTS)
        cursor = self._head = cursor_of(connection, None)
        self._wake()
        while not self._closed.is_set():
            batch = rendered(next_batch(connection, cursor))
            if batch.cursor != cursor:
                self._keep(cursor, batch)
                cursor = batch.cursor
                self._wake()
            if batch.complete and not ear.drain():
                if readable([ear.fileno()], _UNHEARD):
                    ear.listen()
                self._closed.wait(_PAUSE)

    def _keep(self, cursor: Cursor, batch: RenderedBatch) -> None:
        with self._guard:
            self._kept[str(cursor)] = batch
            self._head = batch.cursor
            self._weight += len(batch.events) + 1
            while self._weight > _KEPT and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                self._weight -= len(oldest.events) + 1

    def _wake(self) -> None:
        with self._guard:
            for loop, event in self._waiting:
                with suppress(RuntimeError):  # its loop has ended
                    loop.call_soon_threadsafe(event.set)
