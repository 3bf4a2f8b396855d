"""A job that gives way by suspension has the grace of its queue or project, after its signal.

Revision ID: 0118
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0118"
down_revision = "0117"

_COLUMN = """
ALTER TABLE suspend_requests ADD COLUMN not_before TIMESTAMP WITH TIME ZONE
    CONSTRAINT suspend_requests_not_before_check CHECK ((not_before >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
        AND (not_before < TIMESTAMPTZ '3000-01-01 00:00:00+00'));
COMMENT ON COLUMN suspend_requests.not_before IS
    'when it is suspended at the earliest: a job that gives way has had a signal; NULL: as soon as possible';
"""
_FORMER = """
CREATE OR REPLACE FUNCTION time_to_leave(job jobs) RETURNS interval LANGUAGE sql STABLE AS $$
    SELECT greatest(job.checkpoint, coalesce((
        SELECT g.grace * interval '1 second' FROM giving_way(job) g WHERE g.manner <> 'suspend'), interval '0'))
$$;
DROP TRIGGER announced ON suspend_requests;
ALTER TABLE suspend_requests DROP COLUMN not_before;
"""


def upgrade() -> None:
    """Let a request for a suspension have a date."""
    op.get_bind().exec_driver_sql(_COLUMN)
    make(op.get_bind(), "functions", "time_to_leave", "announced")


def downgrade() -> None:
    """Have jobs suspended as soon as possible."""
    op.get_bind().exec_driver_sql(_FORMER)
