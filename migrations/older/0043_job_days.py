"""Ended jobs are counted by day."""

from __future__ import annotations

from sqlalchemy import Connection

# jobs that did not start are taken from it by 0048, those that gave way come with 0066
_FILL = """
    INSERT INTO job_days
    SELECT (ended_at AT TIME ZONE 'UTC')::date, user_name, project, queue_name, count(*),
           count(*) FILTER (WHERE state = 'Error' OR exit_status <> 0), count(waited), coalesce(sum(waited), 0),
           coalesce(max(waited), 0), coalesce(sum(greatest((waited + ran) / greatest(ran, 10), 1)), 0),
           0, 0
    FROM (
        SELECT j.*, greatest(extract(epoch FROM started_at - submitted_at), 0) AS waited,
               extract(epoch FROM ended_at - started_at) AS ran
        FROM {schema}.jobs j WHERE accounted
    ) counted
    GROUP BY 1, 2, 3, 4
    ON CONFLICT (day, user_name, project, queue_name) DO UPDATE
        SET jobs = job_days.jobs + excluded.jobs, failed = job_days.failed + excluded.failed,
            started = job_days.started + excluded.started,
            wait_seconds = job_days.wait_seconds + excluded.wait_seconds,
            longest_wait = greatest(job_days.longest_wait, excluded.longest_wait),
            slowdowns = job_days.slowdowns + excluded.slowdowns
"""


def rows(connection: Connection) -> None:
    """Count what is accounted already."""
    for schema in ("public", "oar_past"):
        connection.exec_driver_sql(_FILL.format(schema=schema))
