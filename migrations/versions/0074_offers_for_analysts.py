"""Analysts see what refused reservations were offered.

Revision ID: 0074
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0074"
down_revision = "0073"


def upgrade() -> None:
    """Make the view."""
    make(op.get_bind(), "views", "offers")


def downgrade() -> None:
    """Take it back."""
    op.execute("DROP VIEW IF EXISTS oar_report.offers")
