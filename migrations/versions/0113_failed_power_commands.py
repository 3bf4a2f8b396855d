"""Commands that wake nodes or send them to sleep are tried again when they fail.

Revision ID: 0113
"""

from __future__ import annotations

from alembic import op

revision = "0113"
down_revision = "0112"

_COLUMNS = """
ALTER TABLE node_power ADD COLUMN tries INTEGER DEFAULT 0 NOT NULL
        CONSTRAINT node_power_tries_check CHECK (tries BETWEEN 0 AND 1000000),
    ADD COLUMN retry_at TIMESTAMP WITH TIME ZONE CONSTRAINT node_power_retry_at_check
        CHECK ((retry_at >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
            AND (retry_at < TIMESTAMPTZ '3000-01-01 00:00:00+00')),
    ADD COLUMN failure TEXT DEFAULT '' NOT NULL;
COMMENT ON COLUMN node_power.sent_at IS 'when the command for it was run and did not fail; NULL: not yet';
COMMENT ON COLUMN node_power.tries IS 'how often that command has failed since';
COMMENT ON COLUMN node_power.retry_at IS 'when it is tried again; NULL: it has not failed';
COMMENT ON COLUMN node_power.failure IS 'why it failed last';
"""
_BEFORE = """
UPDATE node_power SET sent_at = now() WHERE tries > 0 AND sent_at IS NULL;
ALTER TABLE node_power DROP COLUMN tries, DROP COLUMN retry_at, DROP COLUMN failure;
COMMENT ON COLUMN node_power.sent_at IS 'when the command for it was run; NULL: not yet';
"""


def upgrade() -> None:
    """Keep how often a command failed, why, and when it is tried again."""
    op.get_bind().exec_driver_sql(_COLUMNS)


def downgrade() -> None:
    """Forget failures: the older version takes a command that failed for one that was run."""
    op.get_bind().exec_driver_sql(_BEFORE)
