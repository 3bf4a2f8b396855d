"""Arrays may say how many of their members run at once.

Revision ID: 0082
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import follow, make

revision = "0082"
down_revision = "0081"

_COLUMN = """
    ALTER TABLE jobs ADD COLUMN throttle INTEGER, ADD CONSTRAINT jobs_throttle_check CHECK (throttle > 0);
    COMMENT ON COLUMN jobs.throttle IS 'how many members of its array may run at once; NULL: all';
    CREATE INDEX jobs_throttled ON jobs (array_id)
        WHERE (throttle IS NOT NULL) AND (state NOT IN ('Terminated', 'Error'));
"""


# passes of the version before read no such column
_FORMER = """
    DO $$ BEGIN
        EXECUTE replace(replace(pg_get_functiondef('jobs_moved'::regproc), ', throttle', ''), ', array_id', '');
    END $$
"""


def upgrade() -> None:
    """Add the column, and let passes hear of it."""
    op.execute(_COLUMN)
    follow(op.get_bind())
    make(op.get_bind(), "functions", "jobs_moved")


def downgrade() -> None:
    """Take the column back: all members run as they can."""
    op.execute(_FORMER)
    op.execute("ALTER TABLE jobs DROP COLUMN throttle")
    follow(op.get_bind())
