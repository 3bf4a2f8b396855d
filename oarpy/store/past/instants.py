"""The state at one instant, read from the histories: jobs, held resources, states of resources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime

from psycopg.sql import SQL

from oarpy.store.database import Connection
from oarpy.store.jobs import windows
from oarpy.store.jobs.job_listing import ListedJob, events_of_error
from oarpy.store.jobs.scope import JobScope
from oarpy.store.jobs.windows import JobWindow
from oarpy.store.passes.gantt import GanttBar
from oarpy.store.past.reading import has_past_since, with_past

# Jobs as they were, with the verdict of then for jobs that waited. The first change of a field after the instant has
# the value from before. Jobs that had ended before are read only on request. A message begins with the request; the
# rest may be of a later state.
_JOBS = f"""
    WITH instant AS (SELECT %s::timestamptz AS at),
    past AS (
        SELECT j.job_id, j.array_id, j.array_index, coalesce(was.it->>'name', j.job_name) AS job_name, j.user_name,
               coalesce(was.it->>'project', j.project) AS project,
               coalesce(was.it->>'queue', j.queue_name) AS queue_name, l.state,
               CASE WHEN was.it ? 'message' THEN was.it->>'message'
                    WHEN upper_inf(l.during) THEN j.message
                    ELSE coalesce(substring(j.message FROM '^R=[0-9]+,W=[^;]*'), '') END AS message,
               j.submitted_at, CASE WHEN j.started_at <= i.at THEN j.started_at END AS started_at,
               CASE WHEN j.ended_at <= i.at THEN j.ended_at END AS ended_at,
               CASE WHEN j.ended_at <= i.at THEN j.exit_status END AS exit_status, v.start_time, v.reason,
               v.reason_data, f.earliest_start, f.latest_start, j.walltime
        FROM instant i CROSS JOIN jobs j
            JOIN job_state_logs l ON l.job_id = j.job_id AND l.during @> i.at
            LEFT JOIN LATERAL (
                SELECT * FROM verdict_changes v WHERE v.job_id = j.job_id AND v.at <= i.at
                ORDER BY v.at DESC LIMIT 1) v ON l.state IN ('Hold', 'Waiting', 'toAckReservation')
            CROSS JOIN LATERAL (
                SELECT jsonb_object_agg(first.what, first.before) AS it FROM (
                    SELECT DISTINCT ON (c->>'what') c->>'what' AS what, coalesce(c->>'before', '') AS before
                    FROM event_logs e CROSS JOIN LATERAL jsonb_array_elements(e.reason_data->'changes') AS c
                    WHERE e.job_id = j.job_id AND e.type = 'ALTER_JOB' AND e.at > i.at
                    ORDER BY c->>'what', e.event_id) AS first) AS was
            LEFT JOIN first_predictions f ON f.job_id = v.job_id AND f.made_at <= i.at AND v.start_time IS NOT NULL
        WHERE j.submitted_at <= i.at AND (%s OR j.ended_at IS NULL OR j.ended_at > i.at)
    )
    SELECT j.job_id, j.array_id, j.array_index, j.job_name, j.user_name, j.project, j.queue_name, j.state, j.message,
           extract(epoch FROM j.submitted_at)::float8, extract(epoch FROM j.started_at)::float8,
           extract(epoch FROM j.ended_at)::float8, extract(epoch FROM j.start_time)::float8, coalesce(j.reason, ''),
           j.reason_data::text, j.exit_status, extract(epoch FROM j.earliest_start)::float8,
           extract(epoch FROM j.latest_start)::float8, extract(epoch FROM j.walltime)::float8,
           {events_of_error("j")}
    FROM past j WHERE {{where}} ORDER BY j.job_id
"""  # noqa: S608 - an expression of the source

# Bars end where they had ended by then, or were to end: the walltime of now stands for that of then.
_BARS = """
    SELECT p.job_id, p.user_name, p.queue_name, l.state, extract(epoch FROM p.begin)::float8,
           extract(epoch FROM p.finish)::float8, p.resources
    FROM (
        SELECT j.job_id, j.user_name, j.queue_name, j.started_at AS begin,
               CASE WHEN j.ended_at <= %(at)s THEN j.ended_at
                    ELSE greatest(j.started_at + j.walltime, %(at)s) END AS finish,
               array_agg(a.resource_id ORDER BY a.resource_id) AS resources
        FROM jobs j JOIN assigned_resources a USING (job_id)
        WHERE j.started_at <= %(at)s AND j.started_at < %(end)s AND (j.ended_at IS NULL OR j.ended_at > %(begin)s)
          AND (%(user)s::text IS NULL OR j.user_name = %(user)s)
        GROUP BY 1, 2, 3, 4, 5
    ) p JOIN job_state_logs l ON l.job_id = p.job_id AND l.during @> %(at)s::timestamptz
    WHERE p.finish > %(begin)s ORDER BY p.begin, p.job_id
"""

_RESOURCES = """
    SELECT r.resource_id, r.network_address, l.state, coalesce(h.jobs, '{}')
    FROM resources r JOIN resource_state_logs l ON l.resource_id = r.resource_id AND l.during @> %(at)s::timestamptz
        LEFT JOIN (
            SELECT a.resource_id, array_agg(a.job_id ORDER BY a.job_id) AS jobs
            FROM assigned_resources a JOIN jobs j USING (job_id)
            WHERE (j.ended_at IS NULL OR j.ended_at > %(at)s) AND a.during @> %(at)s::timestamptz
            GROUP BY a.resource_id) h ON h.resource_id = r.resource_id
    ORDER BY r.resource_id
"""


@dataclass(frozen=True, slots=True)
class ResourceThen:
    """A resource in the ``state`` that it had, with the jobs that held it."""

    resource_id: int
    node: str | None
    state: str
    jobs: tuple[int, ...]


def jobs_at(
    connection: Connection, at: datetime, scope: JobScope, *, everywhere: bool = False
) -> tuple[ListedJob, ...]:
    """Return the jobs of ``scope`` as they were; a scope of live jobs has the jobs that were not over then.

    Name, queue and project are as ``oaralter`` had left them; a message has the request alone. ``everywhere`` finds
    jobs that had ended long before, too.
    """
    where, values = scope.where()
    with _reaching(connection, datetime.fromtimestamp(0, UTC) if everywhere or not scope.live else at):
        rows = connection.execute(SQL(_JOBS).format(where=where), [at, not scope.live, *values]).fetchall()
    return tuple(ListedJob(*row) for row in rows)


def windows_at(connection: Connection, at: datetime, jobs: Sequence[int]) -> dict[int, JobWindow]:
    """Return the windows of reservations as they were, by job; ``jobs`` are of :func:`jobs_at`."""
    with _reaching(connection, datetime.fromtimestamp(0, UTC)):
        return windows.at_instant(connection, jobs, at)


def bars_at(
    connection: Connection, at: datetime, begin: datetime, end: datetime, user: str | None
) -> tuple[GanttBar, ...]:
    """Return the bars of jobs between two dates, as known at ``at``: jobs that had not started are missing."""
    with _reaching(connection, min(at, begin)):
        rows = connection.execute(_BARS, {"at": at, "begin": begin, "end": end, "user": user}).fetchall()
    return tuple(
        GanttBar(job, owner, queue, state, start, finish, tuple(held))
        for job, owner, queue, state, start, finish, held in rows
    )


def resources_at(connection: Connection, at: datetime) -> tuple[ResourceThen, ...]:
    """Return the resources that there are now and were then, as they were."""
    with _reaching(connection, at):
        rows = connection.execute(_RESOURCES, {"at": at}).fetchall()
    return tuple(ResourceThen(number, node, state, tuple(jobs)) for number, node, state, jobs in rows)


@contextmanager
def _reaching(connection: Connection, moment: datetime) -> Iterator[None]:
    """Let queries inside find all jobs that ended after ``moment``, past jobs too."""
    with with_past(connection) if has_past_since(connection, moment) else nullcontext():
        yield
