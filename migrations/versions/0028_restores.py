"""A database that was restored from an older state gives no id twice, and nodes tell what it lost.

Revision ID: 0028
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Integer

from oarpy.store.schema.journal import lost_jobs
from oarpy.store.schema.platform import generations
from oarpy.store.schema.statements import make

revision = "0028"
down_revision = "0027"

_FUNCTIONS = ("database_copy", "begin_generation", "notice_restore", "restore_noticed")


def upgrade() -> None:
    """Add what notices a restore. The first generation begins with the next job, or the next start of a module."""
    connection = op.get_bind()
    generations.create(connection)
    lost_jobs.create(connection)
    comment = "the generation for which it has told what the database lost"
    op.add_column("nodes", Column("recalled", Integer, nullable=False, server_default="0", comment=comment))
    make(connection, "functions", *_FUNCTIONS)


def downgrade() -> None:
    """Take it away."""
    op.execute("DROP VIEW oar_report.lost_jobs")
    for name in reversed(_FUNCTIONS):
        op.execute(f"DROP FUNCTION {name} CASCADE")
    op.drop_column("nodes", "recalled")
    op.drop_table("lost_jobs")
    op.drop_table("generations")
