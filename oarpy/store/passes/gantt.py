"""The resources that jobs held, hold and will hold in a period."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime

from oarpy.store.database import Connection
from oarpy.store.past.reading import has_past_since, with_past


@dataclass(frozen=True, slots=True)
class GanttBar:
    """A job on resources from ``begin`` to ``end`` (epoch seconds); ``end`` is expected unless the job is over."""

    job_id: int
    user: str
    queue: str
    state: str
    begin: float
    end: float
    resource_ids: tuple[int, ...]


# Jobs that ended in the period (from the index on the end), running jobs, jobs that hold their resources for a later
# begin, accepted reservations, predictions. A job that has grown or shrunk has a bar for each time at which it held the
# same resources.
_BARS = """
    WITH bars AS (
        SELECT job_id, started_at AS begin, ended_at AS finish FROM jobs
        WHERE ended_at > %(begin)s AND started_at < %(end)s
        UNION ALL
        SELECT job_id, started_at, greatest(expected_end(jobs), now()) FROM public.jobs
        WHERE is_live(state) AND started_at < %(end)s
        UNION ALL
        SELECT g.job_id, lower(l.during), coalesce(g.opens_at, g.expected_at) + g.walltime
        FROM public.launch_gates g JOIN public.job_state_logs l ON l.job_id = g.job_id AND upper_inf(l.during)
        WHERE l.state = 'toLaunch' AND lower(l.during) < %(end)s
    ), placed AS (
        SELECT b.job_id, b.begin, b.finish, array_agg(a.resource_id ORDER BY a.resource_id) AS resources
        FROM bars b JOIN assigned_resources a ON a.job_id = b.job_id
        WHERE b.finish > %(begin)s AND NOT EXISTS (SELECT FROM resizes r WHERE r.job_id = b.job_id)
        GROUP BY b.job_id, b.begin, b.finish
        UNION ALL
        SELECT b.job_id, greatest(b.begin, lower(part)) AS since, least(b.finish, upper(part)) AS until,
               array_agg(a.resource_id ORDER BY a.resource_id)
        FROM bars b JOIN assigned_resources a ON a.job_id = b.job_id CROSS JOIN LATERAL unnest(a.during) AS part
        WHERE b.finish > %(begin)s AND EXISTS (SELECT FROM resizes r WHERE r.job_id = b.job_id)
          AND (upper_inf(part) OR upper(part) > greatest(b.begin, %(begin)s)) AND lower(part) < least(b.finish, %(end)s)
        GROUP BY b.job_id, since, until
        UNION ALL
        SELECT g.job_id, g.start_time, g.end_time, ARRAY(
            SELECT number FROM unnest(g.resources) AS part, generate_series(lower(part), upper(part) - 1) AS number)
        FROM gantt_predictions g
        WHERE g.start_time < %(end)s AND g.end_time > %(begin)s
    )
    SELECT p.job_id, j.user_name, j.queue_name, j.state, extract(epoch FROM p.begin)::float8,
           extract(epoch FROM p.finish)::float8, p.resources
    FROM placed p JOIN jobs j ON j.job_id = p.job_id
    WHERE (%(user)s::text IS NULL OR j.user_name = %(user)s)
    ORDER BY p.begin, p.job_id
"""


def bars(connection: Connection, begin: datetime, end: datetime, user: str | None = None) -> tuple[GanttBar, ...]:
    """Return the bars that meet the period, of one user or of all, by start and job."""
    with with_past(connection) if has_past_since(connection, begin) else nullcontext():
        rows = connection.execute(_BARS, {"begin": begin, "end": end, "user": user}).fetchall()
    return tuple(
        GanttBar(job, owner, queue, state, start, finish, tuple(resources))
        for job, owner, queue, state, start, finish, resources in rows
    )
