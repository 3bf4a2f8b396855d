"""What announces changes of jobs by hand lists the columns in the order in which they are described.

Revision ID: 0067
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

from oarpy.store.schema.statements import make

revision = "0067"
down_revision = "0066"

_FORMER_COLUMNS = """job_id, submission_id, user_name, project, queue_name, job_name, types, properties, submitted_at,
                   reservation_start, reservation_state, moldable_id, walltime, checkpoint, started_at, suspended_at,
                   suspended_time, exit_status, ended_at
            FROM """


def upgrade() -> None:
    """List them anew."""
    make(op.get_bind(), "functions", "jobs_moved")


def downgrade() -> None:
    """List the columns that the former revision had."""
    connection = op.get_bind()
    (definition,) = connection.execute(text("SELECT pg_get_functiondef('jobs_moved'::regproc)")).one()
    before, *selected = definition.split("SELECT job_id, submission_id, ")
    former = [_FORMER_COLUMNS + rest.partition("FROM ")[2] for rest in selected]
    connection.exec_driver_sql("SELECT ".join([before, *former]), execution_options={"no_parameters": True})
