"""The stream of events: all changes, read from any point on, none left out and none twice.

A cursor is a snapshot of PostgreSQL: the transactions whose changes a listener has seen. A change that is visible now
and was not visible then is new, however late it was committed and whatever number it has. A batch has the changes
between two snapshots, in the order of their numbers. A job's changes get their numbers in turn: each waits for the
commit of the last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import psycopg

from oarpy.model.errors import OarpyError, UsageError
from oarpy.model.reasons import ReasonDocument
from oarpy.store.database import Connection
from oarpy.store.past.reading import with_past

Found = TypeVar("Found")

_SNAPSHOT = r"\d{1,19}:\d{1,19}:(?:\d{1,19}(?:,\d{1,19})*)?"
_CURSOR = re.compile(rf"(\d{{1,9}})-({_SNAPSHOT})(?:-({_SNAPSHOT})-(\d{{1,18}})-(\d{{1,18}}))?", re.ASCII)
_LARGEST = 100_000
"""Characters of a cursor: one lists the transactions that were open."""


class CursorGone(OarpyError):
    """The changes after a cursor are not known any more; the listener begins again."""

    code = "cursor_gone"


@dataclass(frozen=True, slots=True)
class Cursor:
    """A point of the stream of one generation of the database.

    The listener has every change up to the snapshot ``seen``. With ``upto``, it also has the changes between both
    snapshots up to the ``index``-th part (from 1) of the change ``number``.
    """

    generation: int
    seen: str
    upto: str = ""
    number: int = 0
    index: int = 0

    def __str__(self) -> str:
        within = f"-{self.upto}-{self.number}-{self.index}" if self.upto else ""
        return f"{self.generation}-{self.seen}{within}"

    def at(self, upto: str, number: int, index: int) -> Cursor:
        """Return the point after a part of a change."""
        return Cursor(self.generation, self.seen, upto, number, index)

    def towards(self, later: Cursor) -> Cursor:
        """Return this cursor, with a batch after it that ends at ``later`` if ``later`` has seen all that this has."""
        if self.upto or later.upto or self.generation != later.generation or not _contains(later.seen, self.seen):
            return self
        return self.at(later.seen, 0, 0)


def parse_cursor(text: str) -> Cursor:
    """Return the cursor that ``text`` is; raise :class:`UsageError`."""
    match = _CURSOR.fullmatch(text) if len(text) <= _LARGEST else None
    if match is None:
        raise UsageError(
            f"'{text[:80]}' is not a cursor", hint="a cursor is what an event has under 'cursor', or 'now'"
        )
    generation, seen, upto, number, index = match.groups()
    return Cursor(int(generation), seen, upto or "", int(number or 0), int(index or 0))


def _contains(later: str, earlier: str) -> bool:
    """Tell whether a snapshot sees everything that an earlier one sees: ``xmin:xmax:transactions open in between``."""
    first, last = _open_in(earlier), _open_in(later)
    return first[0] <= last[0] and all(transaction >= first[0] or transaction in first[1] for transaction in last[1])


def _open_in(snapshot: str) -> tuple[int, frozenset[int]]:
    """Return the first transaction that had not begun, and the open transactions before it."""
    _, end, numbers = snapshot.split(":")
    return int(end), frozenset(map(int, filter(None, numbers.split(","))))


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one statement: of jobs, events or resources (``ids``), of nodes or queues (``names``)."""

    number: int
    at: float
    kind: str
    ids: tuple[int, ...]
    names: tuple[str, ...]
    state: str | None
    previous_state: str | None


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Changes after a cursor. ``upto`` is the snapshot that they are of, ``last`` the cursor after them."""

    changes: tuple[Change, ...]
    upto: str
    last: Cursor
    complete: bool


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The present facts of a job that everybody may know."""

    user: str
    project: str
    queue: str
    array_id: int
    exit_status: int | None


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """A row of the log of events."""

    type: str
    job: int | None
    hosts: tuple[str, ...]
    description: str
    reason_data: ReasonDocument | None


_BEGIN = "SELECT notice_restore(), pg_current_snapshot()::text"

# One statement, so that all of it is of one snapshot. The key begins with the transaction.
_READ = """
    WITH present AS (
        SELECT pg_current_snapshot() AS snapshot, s.changes_from > pg_snapshot_xmin(%(seen)s::pg_snapshot) AS gone,
               pg_snapshot_xmax(coalesce(%(upto)s, %(seen)s)::pg_snapshot)
                   > pg_snapshot_xmax(pg_current_snapshot()) AS future,
               (SELECT max(generation) FROM generations) AS generation
        FROM site s
    )
    SELECT p.snapshot::text, p.generation, p.gone, p.future,
           c.number, extract(epoch FROM c.at)::float8, c.kind, c.ids, c.names, c.state, c.previous_state
    FROM present p LEFT JOIN LATERAL (
        SELECT * FROM changes
        WHERE transaction >= pg_snapshot_xmin(%(seen)s::pg_snapshot)
          AND NOT pg_visible_in_snapshot(transaction, %(seen)s::pg_snapshot)
          AND (%(upto)s::pg_snapshot IS NULL OR pg_visible_in_snapshot(transaction, %(upto)s::pg_snapshot))
          AND number >= %(number)s
        ORDER BY number LIMIT %(limit)s) c ON true
    ORDER BY c.number
"""

_JOBS = "SELECT job_id, user_name, project, queue_name, array_id, exit_status FROM jobs WHERE job_id = ANY(%s)"
_EVENTS = "SELECT event_id, type, job_id, hosts, description, reason_data FROM event_logs WHERE event_id = ANY(%s)"

# No transaction that is open now may write before the first change that is kept.
_PRUNE = """
    WITH kept AS (
        SELECT least(pg_snapshot_xmin(pg_current_snapshot()), (
            SELECT transaction FROM changes WHERE at >= %s ORDER BY transaction, number LIMIT 1)) AS first
    ), gone AS (
        DELETE FROM changes USING kept WHERE transaction < kept.first RETURNING 1
    ), noted AS (
        UPDATE site SET changes_from = kept.first FROM kept
        WHERE EXISTS (SELECT FROM gone) AND changes_from < kept.first
    )
    SELECT count(*) FROM gone
"""


def begin(connection: Connection) -> Cursor:
    """Return the cursor of now: everything that is committed already is before it."""
    row = connection.execute(_BEGIN).fetchone()
    assert row is not None
    return Cursor(row[0], row[1])


def read(connection: Connection, cursor: Cursor, limit: int = 200) -> ChangeBatch:
    """Return up to ``limit`` changes after ``cursor``; the rest of a batch that it has begun comes whole.

    Raises :class:`CursorGone` when the database was restored since, or no longer has the changes after the cursor.
    """
    values = {"seen": cursor.seen, "upto": cursor.upto or None, "number": cursor.number, "limit": limit}
    try:
        rows = connection.execute(_READ, values).fetchall()
    except psycopg.DataError as error:
        raise UsageError(f"'{str(cursor)[:80]}' is not a cursor", hint="begin anew with 'now'") from error
    snapshot, generation, gone, future = rows[0][:4]
    _must_be_known(cursor, generation, gone=gone, future=future)
    changes = tuple(
        Change(number, at, kind, tuple(ids), tuple(names), state, previous)
        for _, _, _, _, number, at, kind, ids, names, state, previous in rows
        if number is not None
    )
    upto = cursor.upto or snapshot
    complete = len(changes) < limit
    last = Cursor(cursor.generation, upto) if complete else cursor.at(upto, changes[-1].number + 1, 0)
    return ChangeBatch(changes, upto, last, complete)


def _must_be_known(cursor: Cursor, generation: int, *, gone: bool, future: bool) -> None:
    hint = "begin anew: 'now' as the cursor, and look at the present state"
    if generation != cursor.generation or future:
        raise CursorGone("the database was restored since this cursor: what happened meanwhile is not known", hint=hint)
    if gone:
        raise CursorGone("this cursor is too old: what came after it is no longer kept", hint=hint)


def job_facts(connection: Connection, jobs: Collection[int]) -> Mapping[int, JobFacts]:
    """Return the facts of these jobs, live or past; a job that was removed is left out."""
    return _found(connection, jobs, lambda wanted: _jobs(connection, wanted))


def logged_events(connection: Connection, numbers: Collection[int]) -> Mapping[int, LoggedEvent]:
    """Return the rows of the log with these numbers, live or past."""
    return _found(connection, numbers, lambda wanted: _events(connection, wanted))


def prune(connection: Connection, horizon: datetime) -> int:
    """Remove changes from before ``horizon``; return how many rows went."""
    row = connection.execute(_PRUNE, [horizon]).fetchone()
    assert row is not None
    return int(row[0])


def _jobs(connection: Connection, wanted: Sequence[int]) -> dict[int, JobFacts]:
    return {row[0]: JobFacts(*row[1:]) for row in connection.execute(_JOBS, [wanted])}


def _events(connection: Connection, wanted: Sequence[int]) -> dict[int, LoggedEvent]:
    rows = connection.execute(_EVENTS, [wanted])
    return {number: LoggedEvent(kind, job, tuple(hosts), *details) for number, kind, job, hosts, *details in rows}


def _found(
    connection: Connection, wanted: Collection[int], find: Callable[[Sequence[int]], dict[int, Found]]
) -> dict[int, Found]:
    """Look among live jobs, and in the past for the missing jobs."""
    by_number = find(list(wanted)) if wanted else {}
    if missing := [number for number in wanted if number not in by_number]:
        with with_past(connection):
            by_number |= find(missing)
    return by_number
