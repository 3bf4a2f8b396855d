"""Jobs in order of id, a page at a time by key: the page after job 1200 costs what the first one does."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from psycopg.sql import SQL, Composable, Composed

from oarpy.store.database import Connection
from oarpy.store.past.reading import is_in_past, with_past


@dataclass(frozen=True, slots=True)
class ListFilter:
    """What every job of a list meets; None sets no condition. ``since`` and ``until`` are about the submission."""

    states: tuple[str, ...] | None = None
    user: str | None = None
    queue: str | None = None
    project: str | None = None
    name: str | None = None
    array: int | None = None
    node: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class PagedJob:
    """A job in brief. Instants are epoch seconds, ``walltime`` seconds; ``predicted`` is of the last pass."""

    job_id: int
    array_id: int
    array_index: int
    name: str
    user: str
    project: str
    queue: str
    state: str
    exit_status: int | None
    submitted: float
    started: float | None
    ended: float | None
    walltime: float | None
    predicted: float | None
    reason: str


_CONDITIONS = {
    "states": "j.state = ANY(%s)",
    "user": "j.user_name = %s",
    "queue": "j.queue_name = %s",
    "project": "j.project = %s",
    "name": "position(lower(%s) IN lower(j.job_name)) > 0",
    "array": "j.array_id = %s",
    "node": "EXISTS (SELECT FROM assigned_resources a JOIN resources r USING (resource_id)"
    " WHERE a.job_id = j.job_id AND r.network_address = %s)",
    "since": "j.submitted_at >= %s",
    "until": "j.submitted_at < %s",
}

_LIVE = frozenset(
    ("Hold", "Waiting", "toLaunch", "Launching", "Running", "Suspended", "Resuming", "Finishing", "toAckReservation")
)

_PAGE = """
    SELECT j.job_id, j.array_id, j.array_index, j.job_name, j.user_name, j.project, j.queue_name, j.state,
           j.exit_status, extract(epoch FROM j.submitted_at)::float8, extract(epoch FROM j.started_at)::float8,
           extract(epoch FROM j.ended_at)::float8, extract(epoch FROM j.walltime)::float8,
           extract(epoch FROM g.start_time)::float8, coalesce(g.reason, '')
    FROM (SELECT * FROM jobs j WHERE {where} ORDER BY j.job_id {order} LIMIT %s) j
         LEFT JOIN gantt_predictions g ON g.job_id = j.job_id
    ORDER BY j.job_id {order}
"""

_COUNTS = "SELECT state, count(*) FROM jobs WHERE is_live(state) GROUP BY state"


def page(
    connection: Connection, wanted: ListFilter, limit: int, before: int | None = None, after: int | None = None
) -> tuple[PagedJob, ...]:
    """Return at most ``limit`` jobs, the newest first: the newest, those ``before`` an id, or those just ``after``."""
    parts: list[Composable] = []
    values: list[object] = []
    for field in fields(wanted):
        value = getattr(wanted, field.name)
        if value is not None:
            parts.append(SQL(_CONDITIONS[field.name]))
            values.append(list(value) if isinstance(value, tuple) else value)
    only_live = wanted.states is not None and _LIVE.issuperset(wanted.states)
    if only_live:
        parts.append(SQL("is_live(j.state)"))
    for key, part in ((before, "j.job_id < %s"), (after, "j.job_id > %s")):
        if key is not None:
            parts.append(SQL(part))
            values.append(key)
    where = SQL(" AND ").join(parts) if parts else SQL("true")
    query = SQL(_PAGE).format(where=where, order=SQL("ASC" if after is not None else "DESC"))
    rows = _rows(connection, query, [*values, limit], past=not only_live)
    found = tuple(PagedJob(*row) for row in rows)
    return found[::-1] if after is not None else found


def _rows(connection: Connection, query: Composed, values: list[object], *, past: bool) -> list[tuple[Any, ...]]:
    if past and is_in_past(connection, (), (), others=True):
        with with_past(connection):
            return connection.execute(query, values).fetchall()
    return connection.execute(query, values).fetchall()


def live_counts(connection: Connection) -> dict[str, int]:
    """Return how many jobs are in each state that is not final."""
    return dict(connection.execute(_COUNTS).fetchall())
