"""Best-effort jobs that gave way count as such."""

from __future__ import annotations

from sqlalchemy import Connection

_GAVE_WAY = """
    UPDATE job_days d SET gave_way = d.gave_way + n.jobs, wasted_seconds = d.wasted_seconds + n.seconds
    FROM (
        SELECT (j.ended_at AT TIME ZONE 'UTC')::date AS day, j.user_name, j.project, j.queue_name, count(*) AS jobs,
               coalesce(sum(extract(epoch FROM j.ended_at - j.started_at) * (
                   SELECT count(*) FROM {schema}.assigned_resources a JOIN resources r USING (resource_id)
                   WHERE a.job_id = j.job_id AND r.type = 'default')), 0) AS seconds
        FROM {schema}.jobs j JOIN {schema}.kill_requests k USING (job_id)
        WHERE j.accounted AND k.reason = 'BESTEFFORT_KILL' GROUP BY 1, 2, 3, 4
    ) n
    WHERE (d.day, d.user_name, d.project, d.queue_name) = (n.day, n.user_name, n.project, n.queue_name)
      AND n.seconds >= 0
"""


def rows(connection: Connection) -> None:
    """Count them."""
    for schema in ("public", "oar_past"):
        connection.exec_driver_sql(_GAVE_WAY.format(schema=schema))
