"""Verdicts of passes are kept for some time, whenever that of a job changes.

Revision ID: 0044
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, CheckConstraint, Column, Double, Integer, Text
from sqlalchemy.dialects.postgresql import ARRAY, INT8MULTIRANGE
from sqlalchemy.sql.elements import conv

from oarpy.store.schema.columns import INSTANT, sound

revision = "0044"
down_revision = "0043"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "verdict_changes",
        Column("job_id", BigInteger, nullable=False, comment="the job"),
        Column("at", INSTANT, nullable=False, comment="when a pass found it"),
        Column("verdict", Text, nullable=False, comment="why it does not start now, or that it does"),
        Column("reason", Text, nullable=False, comment="the same in words, as it was first"),
        Column("start_time", INSTANT, comment="start foreseen then, NULL without a prediction"),
        Column("queue_name", Text, nullable=False, comment="its queue"),
        Column("queue_priority", Integer, nullable=False, comment="priority of the queue then"),
        Column("queue_order", Text, nullable=False, comment="what ordered the queue then"),
        Column(
            "order_key",
            ARRAY(Double),
            server_default="{}",
            nullable=False,
            comment="what it was ordered by: the least goes first",
        ),
        Column(
            "passed",
            INT8MULTIRANGE,
            server_default="{}",
            nullable=False,
            comment="of a start: the jobs before it in the order that still waited",
        ),
        CheckConstraint(sound("at", INSTANT), name=conv("verdict_changes_at_check")),
        CheckConstraint(sound("start_time", INSTANT), name=conv("verdict_changes_start_time_check")),
        CheckConstraint(sound("order_key", ARRAY(Double)), name=conv("verdict_changes_order_key_check")),
        comment="verdicts of passes, a row whenever that of a job changed (scheduler.verdict_history)",
    )
    op.create_index("verdict_changes_job", "verdict_changes", ["job_id", "at"])
    op.create_index("verdict_changes_at", "verdict_changes", ["at"], postgresql_using="brin")


def downgrade() -> None:
    """Take it back."""
    op.drop_table("verdict_changes")
