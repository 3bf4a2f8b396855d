"""The rows for a replay of the past: jobs that have ended, their requests, and the resources that some of them held."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple, TypeVar

from psycopg import sql

from oarpy.store.database import Connection
from oarpy.store.jobs.asked_columns import ASKED_COLUMNS
from oarpy.store.rows import read

Kind = TypeVar("Kind")

# Every job that was in the system at some moment of the period: an index range on the end, for the period's begin.
_ENDED = sql.SQL("""
    SELECT j.job_id AS id, j.submission_id AS submission, extract(epoch FROM j.submitted_at)::float8 AS submitted,
           extract(epoch FROM j.started_at)::float8 AS started, extract(epoch FROM j.ended_at)::float8 AS ended,
           extract(epoch FROM j.walltime)::float8 AS walltime, m.position,
           j.state = 'Terminated' AND coalesce(j.exit_status, 0) = 0 AS succeeded,
           extract(epoch FROM j.checkpoint)::float8 AS checkpoint,
           CASE WHEN j.throttle IS NULL THEN 0 ELSE j.array_id END AS array, coalesce(j.throttle, 0) AS throttle, {}
    FROM jobs j LEFT JOIN moldable_descriptions m USING (moldable_id)
    WHERE j.ended_at IS NOT NULL AND (%(since)s::timestamptz IS NULL OR j.ended_at > %(since)s)
        AND (%(until)s::timestamptz IS NULL OR j.submitted_at < %(until)s)
    ORDER BY j.submitted_at, j.job_id
""").format(ASKED_COLUMNS)

_HELD = """
    SELECT job_id, array_agg(resource_id ORDER BY resource_id) FROM assigned_resources
    WHERE job_id = ANY(%s) GROUP BY job_id
"""

_WINDOWS = """
    SELECT job_id, extract(epoch FROM ready)::float8, extract(epoch FROM deadline)::float8
    FROM reservation_windows WHERE job_id = ANY(%s)
"""

_RECORDS = "SELECT submission_id, request FROM submissions WHERE submission_id = ANY(%s)"


def ended(connection: Connection, since: datetime | None, until: datetime | None, kind: type[Kind]) -> list[Kind]:
    """Return the jobs that ended after ``since`` and were submitted before ``until``, in order of submission.

    ``kind`` has a field for everything that passes read of a submission, and ``id``, ``submission``, ``submitted``,
    ``started``, ``ended``, ``walltime``, ``checkpoint`` (epoch seconds, seconds), ``succeeded``, ``array`` and
    ``throttle`` (0 for none), and ``position`` of the alternative from 0.
    """
    return read(connection, _ENDED, kind, {"since": since, "until": until})


def held(connection: Connection, jobs: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """Return the ids of the resources that each of ``jobs`` held."""
    return {job: tuple(resources) for job, resources in connection.execute(_HELD, [list(jobs)])}


class RecordedWindow(NamedTuple):
    """The window of a reservation (epoch seconds); without ``ready`` it could begin at once."""

    ready: float | None
    deadline: float


def windows(connection: Connection, jobs: Iterable[int]) -> dict[int, RecordedWindow]:
    """Return the windows of ``jobs``; a job without a window is missing."""
    rows = connection.execute(_WINDOWS, [list(jobs)])
    return {job: RecordedWindow(ready, deadline) for job, ready, deadline in rows}


def records(connection: Connection, submissions: Iterable[int]) -> dict[int, dict[str, object]]:
    """Return the submissions as the admission rules first saw them."""
    return dict(connection.execute(_RECORDS, [list(submissions)]).fetchall())
