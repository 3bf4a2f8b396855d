"""One line a job: what ``oarstat`` prints without ``-f``. One query reads it, through the indexes of live jobs."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg.sql import SQL

from oarpy.store.database import Connection
from oarpy.store.jobs.scope import JobScope


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job in brief. Times are epoch seconds; ``predicted`` and ``reason`` come from the last scheduling pass."""

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


# What a listing shows of each job, with the answer of the last pass.
_LIST = """
    SELECT j.job_id, j.array_id, j.array_index, j.job_name, j.user_name, j.project, j.queue_name, j.state, j.message,
           extract(epoch FROM j.submitted_at)::float8, extract(epoch FROM j.started_at)::float8,
           extract(epoch FROM j.ended_at)::float8, extract(epoch FROM g.start_time)::float8, coalesce(g.reason, '')
    FROM jobs j LEFT JOIN gantt_predictions g ON g.job_id = j.job_id
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


def states(connection: Connection, scope: JobScope) -> tuple[tuple[int, str], ...]:
    """Return ``(job id, state)`` of the jobs of ``scope`` in order of id."""
    where, values = scope.where()
    return tuple(connection.execute(SQL(_STATES).format(where=where), values, binary=True).fetchall())


def database_time(connection: Connection) -> float:
    """Return the clock of the database, in epoch seconds."""
    row = connection.execute(_NOW).fetchone()
    assert row is not None
    return float(row[0])
