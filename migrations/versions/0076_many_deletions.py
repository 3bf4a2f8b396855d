"""Jobs that end together look up what was asked about them, however few requests are expected to be open.

Revision ID: 0076
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

from oarpy.store.schema.statements import make

revision = "0076"
down_revision = "0075"

_FORMER = """        UPDATE kill_requests k SET state = 'done'
            FROM new_jobs n WHERE n.state IN ('Terminated', 'Error') AND k.job_id = n.job_id AND k.state <> 'done';
"""


def upgrade() -> None:
    """Deletions of thousands of jobs take as much longer as they are more, not the square of that."""
    make(op.get_bind(), "functions", "jobs_moved")


def downgrade() -> None:
    """Join both again."""
    connection = op.get_bind()
    (definition,) = connection.execute(text("SELECT pg_get_functiondef('jobs_moved'::regproc)")).one()
    begin = definition.index("        UPDATE kill_requests k SET state = 'done'")
    end = definition.index("    END IF;", begin)
    former = definition[:begin] + _FORMER + definition[end:]
    connection.exec_driver_sql(former, execution_options={"no_parameters": True})
