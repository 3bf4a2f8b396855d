"""A node tells why an admin drains it or took it down.

Revision ID: 0022
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import TIMESTAMP, Column, Text

from oarpy.store.schema.statements import make

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Add the columns, and the trigger that clears them."""
    op.add_column(
        "nodes", Column("away_reason", Text, comment="why an admin drains it or took it down, until it is back")
    )
    op.add_column("nodes", Column("away_by", Text, comment="who said so"))
    op.add_column("nodes", Column("away_since", TIMESTAMP(timezone=True), comment="when that was said"))
    make(op.get_bind(), "functions", "node_back")


def downgrade() -> None:
    """Take them away."""
    op.execute("DROP FUNCTION node_back CASCADE")
    for name in ("away_reason", "away_by", "away_since"):
        op.drop_column("nodes", name)
