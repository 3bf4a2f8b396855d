"""Jobs that never started count among no starts."""

from __future__ import annotations

from sqlalchemy import Connection

_MEND = """
    UPDATE job_days d SET started = d.started - n.jobs, slowdowns = d.slowdowns - n.jobs
    FROM (
        SELECT (ended_at AT TIME ZONE 'UTC')::date AS day, user_name, project, queue_name, count(*) AS jobs
        FROM {schema}.jobs WHERE accounted AND started_at IS NULL GROUP BY 1, 2, 3, 4
    ) n
    WHERE (d.day, d.user_name, d.project, d.queue_name) = (n.day, n.user_name, n.project, n.queue_name)
      AND d.started - n.jobs BETWEEN 0 AND d.jobs AND d.slowdowns - n.jobs >= 0
"""


def rows(connection: Connection) -> None:
    """Take them away."""
    for schema in ("public", "oar_past"):
        connection.exec_driver_sql(_MEND.format(schema=schema))
