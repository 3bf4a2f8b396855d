"""What a live job is, is said once: ``is_live(state)``.

Revision ID: 0021
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Create the function."""
    make(op.get_bind(), "functions", "is_live")


def downgrade() -> None:
    """Drop it."""
    op.execute("DROP FUNCTION is_live")
