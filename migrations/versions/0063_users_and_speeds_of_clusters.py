"""A broker's clusters of Slurm are open to users that an admin names; clusters tell their speed themselves.

Revision ID: 0063
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Double, Text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.sql.elements import conv

from oarpy.store.schema.columns import column

revision = "0063"
down_revision = "0062"

_TABLE = "grid_clusters"
_AS_SET = "how many times as fast as speed 1, as an admin says; NULL: as it told"
_BEFORE = "how many times as fast as speed 1"


def upgrade() -> None:
    """Add the columns. Clusters of Slurm are closed until an admin says who may use them; speeds stay as they were."""
    _add(column("users", ARRAY(Text), "users whose jobs may go there; NULL: everybody's", optional=True))
    told = "how many times as fast as speed 1, as it told last; NULL: not known yet"
    _add(column("told_speed", Double, told, optional=True, check="told_speed > 0"))
    op.alter_column(_TABLE, "speed", nullable=True, server_default=None, comment=_AS_SET)
    op.execute("UPDATE grid_clusters SET users = '{}' WHERE kind = 'slurm'")


def downgrade() -> None:
    """Open all clusters to everybody again, and keep the speeds that count."""
    op.execute("UPDATE grid_clusters SET speed = coalesce(speed, told_speed, 1)")
    op.alter_column(_TABLE, "speed", nullable=False, server_default="1", comment=_BEFORE)
    op.drop_column(_TABLE, "told_speed")
    op.drop_column(_TABLE, "users")


def _add(added: Column[object]) -> None:
    for check in added.constraints:
        check.name = conv(f"{_TABLE}_{check.name}_check")
    op.add_column(_TABLE, added)
