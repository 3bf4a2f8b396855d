"""Projects, members and quotas that go when a table is emptied are in the history of changes.

Revision ID: 0096
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0096"
down_revision = "0095"


def upgrade() -> None:
    """Keep what goes by TRUNCATE."""
    make(op.get_bind(), "functions", "emptied_noted")


def downgrade() -> None:
    """Keep it no more."""
    op.execute("DROP FUNCTION emptied_noted CASCADE")
