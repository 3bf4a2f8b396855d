"""Passes count how long they took and how many jobs they started, in all: for monitoring.

Revision ID: 0045
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Double, text

from oarpy.store.schema.columns import sound

revision = "0045"
down_revision = "0044"

TABLE = "scheduling_passes"
COLUMNS = {
    "seconds_spent": (Double, "how long all passes took, in all", sound("seconds_spent", Double)),
    "jobs_started": (
        BigInteger,
        "how many jobs passes have started, in all",
        "jobs_started BETWEEN 0 AND 9007199254740992",
    ),
}
"""Type, meaning and condition by name."""


def upgrade() -> None:
    """Add the counts, which begin now."""
    for name, (kind, meaning, condition) in COLUMNS.items():
        op.add_column(TABLE, Column(name, kind, nullable=False, server_default=text("0"), comment=meaning))
        op.create_check_constraint(f"{TABLE}_{name}_check", TABLE, condition)


def downgrade() -> None:
    """Take them away."""
    for name in COLUMNS:
        op.drop_column(TABLE, name)
