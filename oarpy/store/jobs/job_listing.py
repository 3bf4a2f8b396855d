"""One line a job: what ``oarstat`` prints without ``-f``. One query reads it, through the indexes of live jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.sql import SQL

from oarpy.store.database import Connection
from oarpy.store.jobs.scope import JobScope


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job in brief. Times are epoch seconds; ``predicted`` and ``reason`` come from the last scheduling pass.

    ``exit_status`` is that of ``wait``.
    """

    job_id: int
    array_id: int
    array_index: int
    name: str
    user: str
    project: str
    queue: str
    state: str
    message: str
    submitted: float
    started: float | None
    ended: float | None
    predicted: float | None
    reason: str
    exit_status: int | None


# What a listing shows of each job, with the answer of the last pass; of one that is being killed, that and why.
_LIST = """
    SELECT j.job_id, j.array_id, j.array_index, j.job_name, j.user_name, j.project, j.queue_name, j.state, j.message,
           extract(epoch FROM j.submitted_at)::float8, extract(epoch FROM j.started_at)::float8,
           extract(epoch FROM j.ended_at)::float8, extract(epoch FROM g.start_time)::float8,
           coalesce('Killing: ' || k.reason, g.reason, ''),
           j.exit_status
    FROM jobs j LEFT JOIN gantt_predictions g ON g.job_id = j.job_id
        LEFT JOIN kill_requests k ON k.job_id = j.job_id AND k.state <> 'done'
    WHERE {where}
    ORDER BY j.job_id
"""

# The state alone.
_STATES = "SELECT j.job_id, j.state FROM jobs j WHERE {where} ORDER BY j.job_id"

# The time of the database, which wrote every other time shown.
_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"


def listing(connection: Connection, scope: JobScope) -> tuple[ListedJob, ...]:
    """Return the jobs of ``scope`` in order of id."""
    where, values = scope.where()
    cursor = connection.execute(SQL(_LIST).format(where=where), values, binary=True)
    return tuple(ListedJob(*row) for row in cursor.fetchall())


@dataclass(frozen=True, slots=True)
class ArrayProgress:
    """How far an array is: its size, and how many of its members have ended and failed."""

    size: int
    ended: int
    failed: int


# The last copy of a member that was submitted again is what counts.
_ARRAYS = """
    WITH members AS (
        SELECT DISTINCT ON (array_id, array_index) array_id, array_index, state, exit_status
        FROM jobs WHERE array_id = ANY(%s) ORDER BY array_id, array_index, job_id DESC
    )
    SELECT array_id, max(array_index), max(array_index) - count(*) FILTER (WHERE is_live(state)),
           count(*) FILTER (WHERE state = 'Error' OR (state = 'Terminated' AND exit_status <> 0))
    FROM members GROUP BY array_id
"""


def array_progress(connection: Connection, array_ids: Sequence[int]) -> dict[int, ArrayProgress]:
    """Return how far these arrays are. Of members that have moved to the past it only knows that they ended."""
    rows = connection.execute(_ARRAYS, [list(array_ids)]).fetchall()
    return {array: ArrayProgress(*counts) for array, *counts in rows}


def states(connection: Connection, scope: JobScope) -> tuple[tuple[int, str], ...]:
    """Return ``(job id, state)`` of the jobs of ``scope`` in order of id."""
    where, values = scope.where()
    return tuple(connection.execute(SQL(_STATES).format(where=where), values, binary=True).fetchall())


def database_time(connection: Connection) -> float:
    """Return the clock of the database, in epoch seconds."""
    row = connection.execute(_NOW).fetchone()
    assert row is not None
    return float(row[0])
