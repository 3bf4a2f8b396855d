"""Prologue and epilogue on the server: which were begun, so that none is run twice unnoticed.

Revision ID: 0013
"""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"

_COMMENTS = {
    "job_id": "the job",
    "attempt": "which attempt at it",
    "kind": "prologue or epilogue",
    "began_at": "when it was about to be run",
    "outcome": "ok, failed, timeout, or lost (nobody saw it end); NULL: it runs, or the launcher that ran it is gone",
    "detail": "why it failed",
}


def upgrade() -> None:
    """Create the table."""
    op.execute(
        "CREATE TABLE server_scripts ("
        " job_id bigint REFERENCES jobs ON DELETE CASCADE,"
        " attempt integer,"
        " kind text CHECK (kind IN ('prologue', 'epilogue')),"
        " began_at timestamptz NOT NULL DEFAULT clock_timestamp(),"
        " outcome text CHECK (outcome IN ('ok', 'failed', 'timeout', 'lost')),"
        " detail text NOT NULL DEFAULT '',"
        " PRIMARY KEY (job_id, attempt, kind))"
    )
    op.execute("COMMENT ON TABLE server_scripts IS 'scripts that the server runs around jobs, while the jobs live'")
    for column, text in _COMMENTS.items():
        op.execute(f"COMMENT ON COLUMN server_scripts.{column} IS '{text}'")


def downgrade() -> None:
    """Forget what was run."""
    op.execute("DROP TABLE server_scripts")
