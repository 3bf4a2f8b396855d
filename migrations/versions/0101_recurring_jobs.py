"""Recurring jobs: submissions that are repeated by a rule.

Revision ID: 0101
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import follow, make

revision = "0101"
down_revision = "0100"

_TABLES = """
CREATE TABLE recurring_jobs (
    recurring_id BIGINT GENERATED ALWAYS AS IDENTITY,
    user_name TEXT NOT NULL CONSTRAINT recurring_jobs_user_name_check CHECK (user_name <> ''),
    rule TEXT NOT NULL CONSTRAINT recurring_jobs_rule_check CHECK (rule <> ''),
    submission JSONB NOT NULL
        CONSTRAINT recurring_jobs_submission_check CHECK (jsonb_typeof(submission) = 'object'),
    next_due_at TIMESTAMP WITH TIME ZONE NOT NULL
        CONSTRAINT recurring_jobs_next_due_at_check
        CHECK ((next_due_at >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
            AND (next_due_at < TIMESTAMPTZ '3000-01-01 00:00:00+00')),
    begun_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL
        CONSTRAINT recurring_jobs_begun_at_check
        CHECK ((begun_at >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
            AND (begun_at < TIMESTAMPTZ '3000-01-01 00:00:00+00')),
    last_due_at TIMESTAMP WITH TIME ZONE
        CONSTRAINT recurring_jobs_last_due_at_check
        CHECK ((last_due_at >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
            AND (last_due_at < TIMESTAMPTZ '3000-01-01 00:00:00+00')),
    last_job BIGINT,
    refusal TEXT DEFAULT '' NOT NULL,
    ended_at TIMESTAMP WITH TIME ZONE
        CONSTRAINT recurring_jobs_ended_at_check
        CHECK ((ended_at >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
            AND (ended_at < TIMESTAMPTZ '3000-01-01 00:00:00+00')),
    ended_by TEXT,
    CONSTRAINT recurring_jobs_pkey PRIMARY KEY (recurring_id),
    CONSTRAINT recurring_jobs_ended CHECK ((ended_at IS NULL) = (ended_by IS NULL))
);
CREATE INDEX recurring_jobs_due ON recurring_jobs (next_due_at) WHERE ended_at IS NULL;
COMMENT ON TABLE recurring_jobs IS 'series of jobs: submissions that are repeated by a rule';
COMMENT ON COLUMN recurring_jobs.recurring_id IS 'number of the series';
COMMENT ON COLUMN recurring_jobs.user_name IS 'whose it is';
COMMENT ON COLUMN recurring_jobs.rule IS 'when it is submitted, as after oarsub --every';
COMMENT ON COLUMN recurring_jobs.submission IS
    'the submission with its environment and its script, before admission rules';
COMMENT ON COLUMN recurring_jobs.next_due_at IS 'when it is submitted next';
COMMENT ON COLUMN recurring_jobs.begun_at IS 'when oarsub began it';
COMMENT ON COLUMN recurring_jobs.last_due_at IS 'the last due time; NULL: there was none';
COMMENT ON COLUMN recurring_jobs.last_job IS 'the first job that was submitted last; NULL: none was';
COMMENT ON COLUMN recurring_jobs.refusal IS 'why the last submission was refused; empty: it was not';
COMMENT ON COLUMN recurring_jobs.ended_at IS 'when it was ended; NULL: it goes on';
COMMENT ON COLUMN recurring_jobs.ended_by IS 'who ended it';
CREATE TABLE recurring_submissions (
    recurring_id BIGINT NOT NULL,
    due_at TIMESTAMP WITH TIME ZONE NOT NULL
        CONSTRAINT recurring_submissions_due_at_check
        CHECK ((due_at >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
            AND (due_at < TIMESTAMPTZ '3000-01-01 00:00:00+00')),
    submission_id BIGINT NOT NULL,
    CONSTRAINT recurring_submissions_pkey PRIMARY KEY (recurring_id, due_at),
    CONSTRAINT recurring_submissions_submission_id_key UNIQUE (submission_id),
    CONSTRAINT recurring_submissions_recurring_id_fkey
        FOREIGN KEY(recurring_id) REFERENCES recurring_jobs (recurring_id),
    CONSTRAINT recurring_submissions_submission_id_fkey
        FOREIGN KEY(submission_id) REFERENCES submissions (submission_id) ON DELETE CASCADE
);
COMMENT ON TABLE recurring_submissions IS 'submissions of series, one for each due time at most';
COMMENT ON COLUMN recurring_submissions.recurring_id IS 'the series';
COMMENT ON COLUMN recurring_submissions.due_at IS 'the due time';
COMMENT ON COLUMN recurring_submissions.submission_id IS 'the submission';
"""
_NOTICES = """
ALTER TABLE notices ADD COLUMN recurring_id BIGINT
    CONSTRAINT notices_recurring_id_fkey REFERENCES recurring_jobs (recurring_id) ON DELETE CASCADE;
COMMENT ON COLUMN notices.recurring_id IS 'the recurring job whose user is told';
COMMENT ON COLUMN notices.job_id IS
    'the job whose user is told; without a job, grid job and recurring job the admin is told';
ALTER TABLE notices DROP CONSTRAINT notices_of_one_job,
    ADD CONSTRAINT notices_of_one_job CHECK (num_nonnulls(job_id, grid_job_id, recurring_id) <= 1);
CREATE INDEX notices_recurring_job ON notices (recurring_id);
"""
_BEFORE = """
DELETE FROM notices WHERE recurring_id IS NOT NULL;
ALTER TABLE notices DROP CONSTRAINT notices_of_one_job, DROP COLUMN recurring_id,
    ADD CONSTRAINT notices_of_one_job CHECK ((job_id IS NULL) OR (grid_job_id IS NULL));
COMMENT ON COLUMN notices.job_id IS
    'the job whose user is told; without it and without a grid job the admin is told';
DROP TABLE recurring_submissions, recurring_jobs;
"""


def upgrade() -> None:
    """Make the tables, and let notices be about recurring jobs."""
    op.execute(_TABLES)
    op.execute(_NOTICES)
    make(op.get_bind(), "functions", "announced")
    follow(op.get_bind())


def downgrade() -> None:
    """Forget the series; their jobs stay."""
    op.execute(_BEFORE)
    follow(op.get_bind())
