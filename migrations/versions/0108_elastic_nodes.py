"""Nodes that are created when they are needed, and deleted when they are idle.

Revision ID: 0108
"""

from __future__ import annotations

from alembic import op

revision = "0108"
down_revision = "0107"

_COLUMN = """
ALTER TABLE nodes ADD COLUMN elastic BOOLEAN DEFAULT false NOT NULL;
COMMENT ON COLUMN nodes.elastic IS 'whether it is created when it is needed, and deleted when it is idle';
"""


def upgrade() -> None:
    """Add the mark of such nodes."""
    op.get_bind().exec_driver_sql(_COLUMN)


def downgrade() -> None:
    """Take the mark away: what stands is a node that may sleep."""
    op.get_bind().exec_driver_sql("ALTER TABLE nodes DROP COLUMN elastic")
