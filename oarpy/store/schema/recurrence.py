"""Recurring jobs: submissions that are repeated by a rule, and what was submitted of them."""

from __future__ import annotations

from sqlalchemy import BigInteger, ForeignKey, Identity, Index, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import JSONB

from oarpy.store.schema.columns import INSTANT, NOW, column, rule, table
from oarpy.store.schema.submissions import submissions

# Refers to no job, so that jobs may move to the past.
recurring_jobs = table(
    "recurring_jobs",
    "series of jobs: submissions that are repeated by a rule",
    column("recurring_id", BigInteger, "number of the series", Identity(always=True), key=True),
    column("user_name", Text, "whose it is", check="user_name <> ''"),
    column("rule", Text, "when it is submitted, as after oarsub --every", check="rule <> ''"),
    column(
        "submission",
        JSONB,
        "the submission with its environment and its script, before admission rules",
        check="jsonb_typeof(submission) = 'object'",
    ),
    column("next_due_at", INSTANT, "when it is submitted next"),
    column("begun_at", INSTANT, "when oarsub began it", default=NOW),
    column("last_due_at", INSTANT, "the last due time; NULL: there was none", optional=True),
    column("last_job", BigInteger, "the first job that was submitted last; NULL: none was", optional=True),
    column("refusal", Text, "why the last submission was refused; empty: it was not", default=""),
    column("ended_at", INSTANT, "when it was ended; NULL: it goes on", optional=True),
    column("ended_by", Text, "who ended it", optional=True),
    rule("recurring_jobs_ended", "(ended_at IS NULL) = (ended_by IS NULL)"),
    Index("recurring_jobs_due", "next_due_at", postgresql_where=text("ended_at IS NULL")),
)

recurring_submissions = table(
    "recurring_submissions",
    "submissions of series, one for each due time at most",
    column("recurring_id", BigInteger, "the series", ForeignKey(recurring_jobs.c.recurring_id), key=True),
    column("due_at", INSTANT, "the due time", key=True),
    column("submission_id", BigInteger, "the submission", ForeignKey(submissions.c.submission_id, ondelete="CASCADE")),
    UniqueConstraint("submission_id"),
)
