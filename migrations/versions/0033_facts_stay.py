"""What happened stays: ended jobs, histories and sums are added to; changes of quotas are kept.

Revision ID: 0033
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, CheckConstraint, Column, Identity, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.elements import conv

from oarpy.store.schema.columns import AUTHOR, CLOCK, INSTANT, ME, sound
from oarpy.store.schema.statements import make

revision = "0033"
down_revision = "0032"

_FUNCTIONS = ("ended_jobs_stay", "history_stays", "quota_noted", "sums_grow")


def upgrade() -> None:
    """Create the table and the triggers. The quotas of now are its first rows."""
    op.create_table(
        "quota_changes",
        Column("change_id", BigInteger, Identity(always=True), primary_key=True, comment="number of the change"),
        Column("changed_at", INSTANT, server_default=CLOCK, nullable=False, comment="when"),
        Column("changed_by", Text, server_default=AUTHOR, nullable=False, comment="who changed it"),
        Column("relation", Text, nullable=False, comment="quotas, quota_sets, quota_periods or quota_exceptions"),
        Column("change", Text, nullable=False, comment="made, changed or removed"),
        Column("content", JSONB, nullable=False, comment="the row after it; the last one of a row that was removed"),
        CheckConstraint("change IN ('made', 'changed', 'removed')", name=conv("quota_changes_change_check")),
        CheckConstraint(sound("changed_at", INSTANT), name=conv("quota_changes_changed_at_check")),
        comment="every change of quotas, of their sets and of when these are valid; written by triggers",
    )
    for relation in ("quota_sets", "quotas", "quota_periods", "quota_exceptions"):
        op.execute(
            "INSERT INTO quota_changes (relation, change, content)"  # noqa: S608 - names of this file
            f" SELECT '{relation}', 'made', to_jsonb(q) FROM {relation} q"
        )
    op.alter_column("admission_rule_versions", "changed_by", server_default=AUTHOR)
    op.add_column(
        "site",
        Column(
            "accounting_since",
            INSTANT,
            comment="windows of the accounting that begin before are not compared with the jobs: their sums were"
            " deleted",
        ),
    )
    op.create_check_constraint(op.f("site_accounting_since_check"), "site", sound("accounting_since", INSTANT))
    op.add_column(
        "past_months",
        Column(
            "counted_until",
            INSTANT,
            comment="when it was dropped: end of the last walltime of its jobs; sums of windows that begin before are"
            " not compared",
        ),
    )
    op.create_check_constraint(op.f("past_months_counted_until_check"), "past_months", sound("counted_until", INSTANT))
    make(op.get_bind(), "functions", *_FUNCTIONS, "holding_stays")


def downgrade() -> None:
    """Take it back."""
    op.execute("DROP TRIGGER holding_kept ON assigned_resources")
    for name in _FUNCTIONS:
        op.execute(f"DROP FUNCTION {name} CASCADE")
    op.drop_table("quota_changes")
    op.alter_column("admission_rule_versions", "changed_by", server_default=ME)
    op.drop_column("site", "accounting_since")
    op.drop_column("past_months", "counted_until")
