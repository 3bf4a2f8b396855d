"""Passes leave why jobs wait as facts, too; what was said before stays as it was said.

Revision ID: 0077
"""

from __future__ import annotations

from alembic import op

revision = "0077"
down_revision = "0076"

_TABLES = "gantt_predictions", "verdict_changes"
_COLUMN = """
    ALTER TABLE {0} ADD COLUMN reason_data JSONB,
        ADD CONSTRAINT {0}_reason_data_check CHECK (jsonb_typeof(reason_data) = 'object');
    COMMENT ON COLUMN {0}.reason_data IS 'the same for programs; NULL where nothing but the words is known'
"""


def upgrade() -> None:
    """Add the columns."""
    for table in _TABLES:
        op.execute(_COLUMN.format(table))


def downgrade() -> None:
    """Take them back; the words stay."""
    for table in _TABLES:
        op.execute(f"ALTER TABLE {table} DROP COLUMN reason_data")
