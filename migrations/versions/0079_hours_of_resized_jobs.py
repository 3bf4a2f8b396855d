"""Jobs that were resized count each core for as long as they had it; states last when the clock goes back.

Revision ID: 0079
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0079"
down_revision = "0078"


def upgrade() -> None:
    """Make the views and the function anew."""
    make(op.get_bind(), "views", "jobs", "efficiency")
    make(op.get_bind(), "functions", "jobs_moved")


def downgrade() -> None:
    """Leave them: they have the columns of the older ones, and are right of what these know too."""
