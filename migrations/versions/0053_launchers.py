"""The cluster runs launchers: applications know the program that speaks for them.

Revision ID: 0053
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import Text, text
from sqlalchemy.sql.elements import conv

from oarpy.store.schema.columns import column
from oarpy.store.schema.statements import follow

revision = "0053"
down_revision = "0051"

_TABLE = "applications"


def upgrade() -> None:
    """Add the column, which the past of jobs follows, and the index of those for whom nobody speaks."""
    comment = "the program that speaks for it, which the cluster runs; NULL: somebody else runs it"
    launcher = column("launcher", Text, comment, optional=True, check="launcher <> ''")
    for check in launcher.constraints:
        check.name = conv(f"{_TABLE}_{check.name}_check")
    op.add_column(_TABLE, launcher)
    unattended = text("launcher IS NOT NULL AND lost_since IS NOT NULL AND ended IS NULL")
    op.create_index("applications_unattended", _TABLE, ["job_id"], postgresql_where=unattended)
    follow(op.get_bind())


def downgrade() -> None:
    """Take them away."""
    op.drop_column(_TABLE, "launcher")
    follow(op.get_bind())
