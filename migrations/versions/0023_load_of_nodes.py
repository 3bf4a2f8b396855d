"""Nodes tell their load.

Revision ID: 0023
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import TIMESTAMP, Column, Double, Integer

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Add the columns."""
    op.add_column("nodes", Column("load_average", Double, comment="its load over one minute, NULL before it told"))
    op.add_column("nodes", Column("available_memory", Integer, comment="memory that a new program could have, in MiB"))
    op.add_column("nodes", Column("uptime", Integer, comment="seconds since it was started"))
    op.add_column("nodes", Column("load_at", TIMESTAMP(timezone=True), comment="when that was written"))


def downgrade() -> None:
    """Take them away."""
    for name in ("load_average", "available_memory", "uptime", "load_at"):
        op.drop_column("nodes", name)
