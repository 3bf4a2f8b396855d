"""How long jobs were predicted to run is kept, and how near that was is shown.

Revision ID: 0088
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import follow, make

revision = "0088"
down_revision = "0087"

_TABLE = """
CREATE TABLE run_predictions (
    job_id BIGINT NOT NULL,
    predictor TEXT NOT NULL CONSTRAINT run_predictions_predictor_check CHECK (predictor <> ''),
    seconds DOUBLE PRECISION NOT NULL CONSTRAINT run_predictions_seconds_check
        CHECK ((seconds > 0) AND ((seconds >= -9007199254740992) AND (seconds <= 9007199254740992))),
    made_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL CONSTRAINT run_predictions_made_at_check
        CHECK ((made_at >= TIMESTAMPTZ '1970-01-01 00:00:00+00') AND (made_at < TIMESTAMPTZ '3000-01-01 00:00:00+00')),
    CONSTRAINT run_predictions_pkey PRIMARY KEY (job_id),
    CONSTRAINT run_predictions_job_id_fkey FOREIGN KEY(job_id) REFERENCES jobs (job_id) ON DELETE CASCADE
);
COMMENT ON TABLE run_predictions IS
    'how long jobs were predicted to run when they started, where passes go by that; it stays, to be compared';
COMMENT ON COLUMN run_predictions.job_id IS 'the job';
COMMENT ON COLUMN run_predictions.predictor IS 'by what it was predicted';
COMMENT ON COLUMN run_predictions.seconds IS 'how long';
COMMENT ON COLUMN run_predictions.made_at IS 'when';
CREATE INDEX jobs_runs ON jobs (user_name, ended_at) WHERE started_at IS NOT NULL AND ended_at IS NOT NULL;
CREATE INDEX jobs_named_runs ON jobs (user_name, job_name, ended_at)
    WHERE started_at IS NOT NULL AND ended_at IS NOT NULL;
"""


def upgrade() -> None:
    """Make the table, and the indexes of ended jobs."""
    op.execute(_TABLE)
    follow(op.get_bind())
    make(op.get_bind(), "views", "run_accuracy")


def downgrade() -> None:
    """Forget what was predicted."""
    op.execute(
        "DROP VIEW IF EXISTS oar_report.run_accuracy; DROP TABLE run_predictions; DROP INDEX jobs_runs, jobs_named_runs"
    )
    follow(op.get_bind())
