"""A job that its node could not start waits again, once nothing of it is left there.

Revision ID: 0027
"""

from __future__ import annotations

from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """Let jobs go from Finishing to Waiting."""
    _check("final_state IN ('Terminated', 'Error', 'Waiting')")
    op.execute("INSERT INTO job_transitions VALUES ('Finishing', 'Waiting', 'its node could not start it', 'launcher')")


def downgrade() -> None:
    """Have those that are on this way end in Error; the history of others loses what led there."""
    op.execute("UPDATE jobs SET final_state = 'Error' WHERE final_state = 'Waiting'")
    op.execute(
        "UPDATE job_state_logs SET previous_state = NULL WHERE (previous_state, state) = ('Finishing', 'Waiting')"
    )
    op.execute("DELETE FROM job_transitions WHERE (from_state, to_state) = ('Finishing', 'Waiting')")
    _check("final_state IN ('Terminated', 'Error')")


def _check(condition: str) -> None:
    op.execute("ALTER TABLE jobs DROP CONSTRAINT jobs_final_state_check")
    op.execute(f"ALTER TABLE jobs ADD CONSTRAINT jobs_final_state_check CHECK ({condition})")
