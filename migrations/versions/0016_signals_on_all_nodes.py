"""A signal that the first node of a job has sent by itself is sent by its other nodes too.

Revision ID: 0016
"""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Let a request leave the first node out; of one instant there is one."""
    op.execute("ALTER TABLE signal_requests ADD COLUMN elsewhere boolean NOT NULL DEFAULT false")
    op.execute(
        "COMMENT ON COLUMN signal_requests.elsewhere IS"
        " 'whether the first node of the job has sent it already, at the time of the request'"
    )
    op.execute(
        "CREATE UNIQUE INDEX signal_requests_elsewhere ON signal_requests (job_id, requested_at) WHERE elsewhere"
    )


def downgrade() -> None:
    """Leave such signals to the first node."""
    op.execute("DELETE FROM signal_requests WHERE elsewhere")
    op.execute("ALTER TABLE signal_requests DROP COLUMN elsewhere")
