"""Sums of days count no wait and no slowdown for jobs that never started.

Revision ID: 0048
"""

from __future__ import annotations

from alembic import op

revision = "0048"
down_revision = "0047"

# Until now each had counted as one that started at once. Months that were dropped stay as they were counted.
_MEND = """
    UPDATE job_days d SET started = d.started {sign} n.jobs, slowdowns = d.slowdowns {sign} n.jobs
    FROM (
        SELECT (ended_at AT TIME ZONE 'UTC')::date AS day, user_name, project, queue_name, count(*) AS jobs
        FROM {schema}.jobs WHERE accounted AND started_at IS NULL GROUP BY 1, 2, 3, 4
    ) n
    WHERE (d.day, d.user_name, d.project, d.queue_name) = (n.day, n.user_name, n.project, n.queue_name)
      AND d.started {sign} n.jobs BETWEEN 0 AND d.jobs AND d.slowdowns {sign} n.jobs >= 0
"""


def upgrade() -> None:
    """Take them away."""
    for schema in ("public", "oar_past"):
        op.execute(_MEND.format(schema=schema, sign="-"))


def downgrade() -> None:
    """Count them again, as the older version does."""
    for schema in ("public", "oar_past"):
        op.execute(_MEND.format(schema=schema, sign="+"))
