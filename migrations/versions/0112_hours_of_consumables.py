"""Accounting counts consumables beside cores and GPUs, and shares of GPUs as parts of them.

Revision ID: 0112
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import Connection

from oarpy.store.schema.statements import make

revision = "0112"
down_revision = "0111"

_CHECK = """
    ALTER TABLE accounting DROP CONSTRAINT accounting_consumption_type_check,
        ADD CONSTRAINT accounting_consumption_type_check CHECK ({})
"""
_KINDS = "consumption_type ~ '^(GPU_|[a-z_][a-z0-9_]*_)?(ASKED|USED)$'"
_BEFORE = "consumption_type IN ('ASKED', 'USED', 'GPU_ASKED', 'GPU_USED')"
_COMMENTS = """
    COMMENT ON COLUMN accounting.consumption_type IS
        'ASKED or USED; the same of GPUs, and of a consumable behind its name: memory_USED';
    COMMENT ON COLUMN accounting.consumption IS 'resource-seconds, GPU-seconds, or amounts times seconds';
    COMMENT ON COLUMN site.gpu_hours_since IS
        'sums of GPUs and consumables in windows that begin before are not compared with the jobs: these were not counted for all jobs';
"""  # noqa: E501 - as the description has it
_COMMENTS_BEFORE = """
    COMMENT ON COLUMN accounting.consumption_type IS 'ASKED or USED, and the same of GPUs';
    COMMENT ON COLUMN accounting.consumption IS 'resource-seconds, or GPU-seconds';
    COMMENT ON COLUMN site.gpu_hours_since IS
        'sums of GPUs in windows that begin before are not compared with the jobs: GPUs were not counted for all jobs';
"""


# Jobs with amounts were counted without them. What such a job asked for may end later than now.
_ROWS = """
WITH asked AS (
    SELECT moldable_id FROM consumption_descriptions
    UNION SELECT moldable_id FROM oar_past.consumption_descriptions
), counted AS (
    SELECT moldable_id, started_at + walltime AS until FROM jobs WHERE accounted AND started_at < ended_at
    UNION ALL
    SELECT moldable_id, started_at + walltime FROM oar_past.jobs WHERE accounted AND started_at < ended_at
)
UPDATE site SET gpu_hours_since = greatest(gpu_hours_since, since.at) FROM (
    SELECT least(greatest(now(), max(until)), TIMESTAMPTZ '2999-01-01 00:00:00+00') AS at
    FROM counted JOIN asked USING (moldable_id) HAVING count(*) > 0
) AS since
"""


def rows(connection: Connection) -> None:
    """Compare no older sums where there are consumables."""
    connection.exec_driver_sql(_ROWS, execution_options={"no_parameters": True})


def upgrade() -> None:
    """Let the sums have consumables."""
    op.execute(_CHECK.format(_KINDS))
    op.execute(_COMMENTS)
    make(op.get_bind(), "functions", "shares_forgotten")
    make(op.get_bind(), "views", "accounting", "jobs", "projects")
    rows(op.get_bind())


def downgrade() -> None:
    """Forget the sums of consumables, which the older version does not know. Its views read the rest."""
    op.execute("DELETE FROM accounting WHERE consumption_type !~ '^(GPU_)?(ASKED|USED)$'")
    op.execute(_CHECK.format(_BEFORE))
    op.execute(_COMMENTS_BEFORE)
