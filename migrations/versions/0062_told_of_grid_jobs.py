"""Users are told what becomes of their grid jobs, as of others.

Revision ID: 0062
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Text, text

from oarpy.store.schema.statements import follow, make

revision = "0062"
down_revision = "0061"

_JOB = "the job whose user is told; without it and without a grid job the admin is told"
_JOB_BEFORE = "the job whose user is told; none: the admin is told"


def upgrade() -> None:
    """Add whom to tell, and notices of grid jobs. Of those that are there nobody asked to be told."""
    op.add_column(
        "grid_jobs",
        Column("notify", Text, nullable=False, server_default=text("''"), comment="whom to tell what becomes of it"),
    )
    op.add_column("notices", Column("grid_job_id", BigInteger, comment="the grid job whose user is told"))
    op.create_foreign_key(
        "notices_grid_job_id_fkey", "notices", "grid_jobs", ["grid_job_id"], ["id"], ondelete="CASCADE"
    )
    op.create_check_constraint("notices_of_one_job", "notices", "(job_id IS NULL) OR (grid_job_id IS NULL)")
    op.create_index("notices_grid_job", "notices", ["grid_job_id"])
    op.execute(f"COMMENT ON COLUMN notices.job_id IS '{_JOB}'")
    make(op.get_bind(), "functions", "grid_job_noticed")
    follow(op.get_bind())


def downgrade() -> None:
    """Tell nobody of grid jobs."""
    op.execute("DROP TRIGGER grid_jobs_noticed ON grid_jobs")
    op.execute("DROP FUNCTION grid_job_noticed")
    op.execute("DELETE FROM notices WHERE grid_job_id IS NOT NULL")
    op.drop_column("notices", "grid_job_id")
    op.execute(f"COMMENT ON COLUMN notices.job_id IS '{_JOB_BEFORE}'")
    op.drop_column("grid_jobs", "notify")
    follow(op.get_bind())
