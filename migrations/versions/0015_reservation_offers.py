"""A refused reservation keeps the date at which it could have been had.

Revision ID: 0015
"""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add the column."""
    op.execute("ALTER TABLE jobs ADD COLUMN reservation_offer timestamptz")
    op.execute(
        "COMMENT ON COLUMN jobs.reservation_offer IS"
        " 'of a refused reservation: the first date at which it could have been had, NULL for none'"
    )


def downgrade() -> None:
    """Take it away."""
    op.execute("ALTER TABLE jobs DROP COLUMN reservation_offer")
