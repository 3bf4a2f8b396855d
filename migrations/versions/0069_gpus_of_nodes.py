"""Nodes tell how many graphics processors they have.

Revision ID: 0069
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0069"
down_revision = "0068"


def upgrade() -> None:
    """Let no node have told."""
    op.add_column("nodes", sa.Column("gpus", sa.Integer, comment="graphics processors that it told of, NULL before"))


def downgrade() -> None:
    """Forget what they told."""
    op.drop_column("nodes", "gpus")
