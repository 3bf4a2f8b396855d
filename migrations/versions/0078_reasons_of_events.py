"""What a pass decided about a job and logged has its reason as facts, too.

Revision ID: 0078
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import follow

revision = "0078"
down_revision = "0077"

_COLUMN = """
    ALTER TABLE event_logs ADD COLUMN reason_data JSONB,
        ADD CONSTRAINT event_logs_reason_data_check CHECK (jsonb_typeof(reason_data) = 'object');
    COMMENT ON COLUMN event_logs.reason_data IS 'the description for programs, of what a pass decided about a job'
"""


def upgrade() -> None:
    """Add the column, which the past of jobs follows."""
    op.execute(_COLUMN)
    follow(op.get_bind())


def downgrade() -> None:
    """Take it away."""
    op.drop_column("event_logs", "reason_data")
    follow(op.get_bind())
