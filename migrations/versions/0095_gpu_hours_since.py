"""The site knows since when GPUs are counted for all jobs.

Revision ID: 0095
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import Connection

revision = "0095"
down_revision = "0094"

_COLUMN = """
ALTER TABLE site ADD COLUMN gpu_hours_since TIMESTAMP WITH TIME ZONE CONSTRAINT site_gpu_hours_since_check
    CHECK ((gpu_hours_since >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
        AND (gpu_hours_since < TIMESTAMPTZ '3000-01-01 00:00:00+00'));
COMMENT ON COLUMN site.gpu_hours_since IS
    'sums of GPUs in windows that begin before are not compared with the jobs: GPUs were not counted for all jobs';
"""
# Nothing tells whether a job was counted before 0091 or after it. What such a job asked for may end later than now.
_SINCE = """
WITH asked AS (
    SELECT g.moldable_id FROM resource_groups g JOIN resource_descriptions d USING (group_id) WHERE d.level = 'gpu'
    UNION
    SELECT g.moldable_id FROM oar_past.resource_groups g JOIN oar_past.resource_descriptions d USING (group_id)
    WHERE d.level = 'gpu'
), counted AS (
    SELECT moldable_id, started_at + walltime AS until FROM jobs WHERE accounted AND started_at < ended_at
    UNION ALL
    SELECT moldable_id, started_at + walltime FROM oar_past.jobs WHERE accounted AND started_at < ended_at
)
UPDATE site SET gpu_hours_since = since.at FROM (
    SELECT least(greatest(now(), max(until)), TIMESTAMPTZ '2999-01-01 00:00:00+00') AS at
    FROM counted JOIN asked USING (moldable_id) HAVING count(*) > 0
) AS since
"""


def upgrade() -> None:
    """Add the column; where jobs with GPUs were counted, sums of GPUs are compared from now on."""
    op.get_bind().exec_driver_sql(_COLUMN, execution_options={"no_parameters": True})
    rows(op.get_bind())


def rows(connection: Connection) -> None:
    """Let no sum of GPUs be compared to which jobs add that were counted without GPUs."""
    connection.exec_driver_sql(_SINCE, execution_options={"no_parameters": True})


def downgrade() -> None:
    """Forget since when GPUs are counted."""
    op.execute("ALTER TABLE site DROP COLUMN gpu_hours_since")
