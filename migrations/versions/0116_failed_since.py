"""Nodes are late from the first failure of the command that wakes them, not from the order to wake them.

Revision ID: 0116
"""

from __future__ import annotations

from alembic import op

revision = "0116"
down_revision = "0115"

# When the commands failed first is not known: their nodes have the whole time again.
_COLUMN = """
ALTER TABLE node_power ADD COLUMN failed_since TIMESTAMP WITH TIME ZONE CONSTRAINT node_power_failed_since_check
    CHECK ((failed_since >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
        AND (failed_since < TIMESTAMPTZ '3000-01-01 00:00:00+00'));
COMMENT ON COLUMN node_power.failed_since IS 'when it failed first; NULL: it has not failed';
UPDATE node_power SET failed_since = now() WHERE tries > 0;
"""


def upgrade() -> None:
    """Keep since when a command fails."""
    op.get_bind().exec_driver_sql(_COLUMN)


def downgrade() -> None:
    """Forget it."""
    op.execute("ALTER TABLE node_power DROP COLUMN failed_since")
