"""A copy of a job has the place of its array that the job has, and signals of a job are found by an index.

Revision ID: 0032
"""

from __future__ import annotations

from alembic import op

revision = "0032"
down_revision = "0031"

# A database with copies cannot have the older index: copies get places of their own after the others.
_COPIES = """
    UPDATE jobs j SET array_index = c.place FROM (
        SELECT o.job_id, max(o.array_index) OVER (PARTITION BY o.array_id)
            + row_number() OVER (PARTITION BY o.array_id ORDER BY o.job_id) AS place
        FROM jobs o) c
    WHERE c.job_id = j.job_id AND j.resubmit_of IS NOT NULL AND EXISTS (
        SELECT FROM jobs o WHERE (o.array_id, o.array_index) = (j.array_id, j.array_index) AND o.job_id <> j.job_id)
"""


def upgrade() -> None:
    """Create the indexes."""
    op.create_index("signal_requests_job", "signal_requests", ["job_id"])
    op.execute("DROP INDEX jobs_array")
    op.execute("CREATE INDEX jobs_array ON jobs (array_id)")
    op.execute("CREATE UNIQUE INDEX jobs_array_place ON jobs (array_id, array_index) WHERE resubmit_of IS NULL")


def downgrade() -> None:
    """Have the older ones."""
    op.execute("DROP INDEX signal_requests_job, jobs_array, jobs_array_place")
    op.execute(_COPIES)
    op.execute("CREATE UNIQUE INDEX jobs_array ON jobs (array_id, array_index)")
