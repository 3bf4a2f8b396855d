"""Jobs of a user may come later than others of the same user.

Revision ID: 0068
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from oarpy.store.schema.statements import make

revision = "0068"
down_revision = "0067"


def upgrade() -> None:
    """Let none be nice, and announce when somebody changes that."""
    meaning = "the greater, the later among the user's own jobs"
    op.add_column(
        "jobs", sa.Column("nice", sa.SmallInteger, nullable=False, server_default=sa.text("0"), comment=meaning)
    )
    op.create_check_constraint(op.f("jobs_nice_check"), "jobs", "nice BETWEEN 0 AND 1000")
    make(op.get_bind(), "functions", "jobs_moved")


def downgrade() -> None:
    """Forget it: jobs come in the order of their queue alone."""
    connection = op.get_bind()
    (definition,) = connection.execute(sa.text("SELECT pg_get_functiondef('jobs_moved'::regproc)")).one()
    former = definition.replace("ended_at, nice", "ended_at")
    connection.exec_driver_sql(former, execution_options={"no_parameters": True})
    op.drop_column("jobs", "nice")
