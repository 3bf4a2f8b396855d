"""Names of transactions and parts on clusters carry a word of this copy of the database, so that none comes again.

Revision ID: 0061
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Text, text

revision = "0061"
down_revision = "0060"

_MEANING = "part of its name on clusters: of this copy of the database alone"


def upgrade() -> None:
    """Add the word. Transactions that clusters know already keep the names that they have there."""
    op.add_column(
        "grid_transactions", Column("word", Text, nullable=False, server_default=text("''"), comment=_MEANING)
    )


def downgrade() -> None:
    """Take it away."""
    op.drop_column("grid_transactions", "word")
