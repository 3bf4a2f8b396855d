"""Events after a cursor, one for each job, node or queue that a change concerns.

Everybody may see all of them: they contain only facts that ``oarstat`` and ``oarnodes`` show to everybody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from oarpy.store import event_stream
from oarpy.store.database import Connection
from oarpy.store.event_stream import Change, Cursor, JobFacts, LoggedEvent, parse_cursor

NOW = "now"
"""The word for the cursor after all that has happened."""


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """An event at ``at`` (epoch seconds). A listener that has seen it goes on after ``cursor``.

    ``kind`` is job (a new state), node (a new state of some of its resources), queue (added, changed or removed), or
    event: a row of the log, with ``type``, ``hosts`` and ``description``. ``facts`` are the present facts of the job.
    """

    cursor: Cursor
    at: float
    kind: str
    job: int | None = None
    name: str | None = None
    state: str | None = None
    previous_state: str | None = None
    logged: LoggedEvent | None = None
    facts: JobFacts | None = None


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events, and the cursor after them; ``complete`` says that nothing more has happened."""

    events: tuple[ClusterEvent, ...]
    cursor: Cursor
    complete: bool


def cursor_of(connection: Connection, since: str | None) -> Cursor:
    """Return the cursor that a listener names, or the present one; raise :class:`UsageError` for any other text."""
    return event_stream.begin(connection) if since in (None, "", NOW) else parse_cursor(since or "")


def next_batch(connection: Connection, cursor: Cursor) -> EventBatch:
    """Return the next batch after ``cursor``.

    Raises :class:`oarpy.store.event_stream.CursorGone` when it is not known any more.
    """
    batch = event_stream.read(connection, cursor)
    logged = event_stream.logged_events(connection, _ids(batch.changes, "event"))
    jobs = {event.job for event in logged.values() if event.job is not None} | _ids(batch.changes, "job")
    facts = event_stream.job_facts(connection, jobs)
    events = tuple(
        event
        for change in batch.changes
        for event in _parts(change, cursor, batch.upto, logged, facts)
        if change.number != cursor.number or event.cursor.index > cursor.index
    )
    return EventBatch(events, batch.last, batch.complete)


def concerns(event: ClusterEvent, jobs: Collection[int], user: str | None) -> bool:
    """Tell whether the event is about one of ``jobs`` (none: any job or thing), of ``user`` if one is given."""
    return (not jobs or event.job in jobs) and (user is None or (event.facts is not None and event.facts.user == user))


def _ids(changes: Collection[Change], kind: str) -> set[int]:
    return {number for change in changes if change.kind == kind for number in change.ids}


def _parts(
    change: Change, cursor: Cursor, upto: str, logged: Mapping[int, LoggedEvent], facts: Mapping[int, JobFacts]
) -> Iterator[ClusterEvent]:
    """Yield an event for each part of a change, in the order of its numbers or names."""
    for index, name in enumerate(change.names, start=1):
        here = cursor.at(upto, change.number, index)
        yield ClusterEvent(here, change.at, change.kind, None, name, change.state, change.previous_state)
    for index, number in enumerate(change.ids, start=1):
        here = cursor.at(upto, change.number, index)
        if change.kind == "job":
            known = facts.get(number)
            yield ClusterEvent(here, change.at, "job", number, None, change.state, change.previous_state, None, known)
        elif (event := logged.get(number)) is not None:
            known = None if event.job is None else facts.get(event.job)
            yield ClusterEvent(here, change.at, "event", job=event.job, logged=event, facts=known)
