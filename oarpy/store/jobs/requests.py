"""Jobs as users ask for something to be done with them: found, locked, held, released, made best-effort.

Statements are set-wise and lock rows in order of id. Two look-ups of running jobs for interactive commands are here
too. Kills, suspensions and walltimes have modules of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg.sql import SQL

from oarpy.model.job_types import NOOP
from oarpy.store.database import Connection
from oarpy.store.jobs.scope import JobScope
from oarpy.store.past.reading import past_alone


@dataclass(frozen=True, slots=True)
class JobHandle:
    """The facts of a job that decide whether a user may act on it. ``checkpoint_signal`` is a number."""

    job_id: int
    array_id: int
    user: str
    state: str
    kind: str
    checkpoint_signal: int
    types: tuple[str, ...] = ()


# In order of id, as every other writer locks them, so that two requests never wait for each other.
_HANDLES = """
    SELECT j.job_id, j.array_id, j.user_name, j.state, j.kind, j.checkpoint_signal, j.types
    FROM jobs j WHERE {where} ORDER BY j.job_id FOR NO KEY UPDATE
"""

_FOUND = """
    SELECT j.job_id, j.array_id, j.user_name, j.state, j.kind, j.checkpoint_signal, j.types
    FROM jobs j WHERE {where} ORDER BY j.job_id
"""

# Waiting to Hold, Suspended to Resuming, or back; a job that has moved on meanwhile stays.
_MOVE = "UPDATE jobs SET state = %s WHERE job_id = ANY(%s) AND state = %s"

# The type and the queue go together. The scheduler notices a change of running jobs only by a notification.
_TOGGLE_BESTEFFORT = """
    UPDATE jobs
    SET types = CASE WHEN types @> '{besteffort}' THEN array_remove(types, 'besteffort')
                     ELSE types || '{besteffort}' END,
        queue_name = CASE WHEN types @> '{besteffort}' THEN %s ELSE 'besteffort' END
    WHERE job_id = ANY(%s) AND state = 'Running'
    RETURNING job_id, types @> '{besteffort}'
"""
_ANNOUNCE_CHANGE = "SELECT announce(ARRAY['job changed'])"


def lock(connection: Connection, scope: JobScope) -> tuple[JobHandle, ...]:
    """Return the jobs of ``scope`` in order of id, locked until the end of the transaction."""
    return _handles(connection, _HANDLES, scope)


def find(connection: Connection, scope: JobScope) -> tuple[JobHandle, ...]:
    """Return the jobs of ``scope`` in order of id."""
    return _handles(connection, _FOUND, scope)


def _handles(connection: Connection, statement: LiteralString, scope: JobScope) -> tuple[JobHandle, ...]:
    """Return the live jobs of ``scope``; the past is searched too when named jobs are not among them."""
    where, values = scope.where()
    query = SQL(statement).format(where=where)
    rows = connection.execute(query, values).fetchall()
    missing = {*scope.job_ids} - {row[0] for row in rows} or {*scope.array_ids} - {row[1] for row in rows}
    if missing and not scope.live:
        with past_alone(connection):
            rows = sorted([*rows, *connection.execute(query, values)])
    return tuple(
        JobHandle(job, array, user, state, kind, checkpoint, tuple(types))
        for job, array, user, state, kind, checkpoint, types in rows
    )


def toggle_besteffort(connection: Connection, job_ids: Sequence[int], usual_queue: str) -> dict[int, bool]:
    """Make running best-effort jobs ordinary, in ``usual_queue``, and others best-effort.

    Return the new kind of each.
    """
    rows = connection.execute(_TOGGLE_BESTEFFORT, (usual_queue, list(job_ids))).fetchall()
    connection.execute(_ANNOUNCE_CHANGE)
    return dict(rows)


def move(connection: Connection, job_ids: Sequence[int], source: str, target: str) -> None:
    """Move the jobs that are in state ``source`` to ``target``."""
    if job_ids:
        connection.execute(_MOVE, (target, list(job_ids), source))


@dataclass(frozen=True, slots=True)
class Progress:
    """A job on its way; ``predicted`` is its start (epoch seconds) as the last scheduling pass saw it."""

    state: str
    message: str
    predicted: float | None


_PROGRESS = """
    SELECT j.state, j.message, extract(epoch FROM g.start_time)::float8
    FROM jobs j LEFT JOIN gantt_predictions g USING (job_id)
    WHERE j.job_id = %s
"""

# The jobs of a list that are over; a job that does not exist any more is over, too.
_ENDS = """
    SELECT asked.job_id, j.state, j.exit_status, j.message
    FROM unnest(%s::bigint[]) AS asked (job_id) LEFT JOIN jobs j USING (job_id)
    WHERE j.state IS NULL OR j.state IN ('Terminated', 'Error')
"""

_RUNNING = """
    SELECT job_id FROM jobs
    WHERE state = 'Running' AND user_name = %s AND NOT types && %s::text[]
    ORDER BY job_id
"""


def progress(connection: Connection, job_id: int) -> Progress | None:
    """Return how far a job is, None when it is not there (any more)."""
    row = connection.execute(_PROGRESS, [job_id]).fetchone()
    return None if row is None else Progress(*row)


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """A job that is over: ``state`` (None: gone), the wait ``status`` of its command, and why it ended."""

    job: int
    state: str | None
    status: int | None
    message: str | None


def ends(connection: Connection, job_ids: Sequence[int]) -> list[FinishedJob]:
    """Return which of these jobs are over."""
    return [FinishedJob(*row) for row in connection.execute(_ENDS, [list(job_ids)])]


def running_jobs(connection: Connection, user: str) -> list[int]:
    """Return the running jobs of a user that have processes on nodes."""
    return [job for (job,) in connection.execute(_RUNNING, [user, list(NOOP)])]
