"""Changes are noted for a stream of events, by triggers on the histories.

Revision ID: 0039
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, CheckConstraint, Column, Identity, PrimaryKeyConstraint, Text, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.sql.elements import conv

from oarpy.store.schema.columns import CLOCK, INSTANT, TransactionNumber, sound
from oarpy.store.schema.statements import make

revision = "0039"
down_revision = "0038"

_FUNCTIONS = ("changes_forgotten", "changes_noted")


def upgrade() -> None:
    """Create the table, its triggers, and the column that tells what of it is gone."""
    op.create_table(
        "changes",
        Column(
            "transaction",
            TransactionNumber(),
            server_default=text("pg_current_xact_id()"),
            nullable=False,
            comment="who wrote it",
        ),
        Column("number", BigInteger, Identity(always=True), comment="order of what a reader finds new"),
        Column("at", INSTANT, server_default=CLOCK, nullable=False, comment="when"),
        Column("kind", Text, nullable=False, comment="of what"),
        Column(
            "ids",
            ARRAY(BigInteger),
            server_default="{}",
            nullable=False,
            comment="numbers of the jobs, or of the rows of event_logs",
        ),
        Column("names", ARRAY(Text), server_default="{}", nullable=False, comment="nodes or queues"),
        Column("state", Text, comment="the state after it; of queues added, changed or removed"),
        Column("previous_state", Text, comment="the state before it, if there was one"),
        PrimaryKeyConstraint("transaction", "number"),
        CheckConstraint(sound("at", INSTANT), name=conv("changes_at_check")),
        CheckConstraint("kind IN ('job', 'event', 'node', 'queue')", name=conv("changes_kind_check")),
        CheckConstraint(sound("ids", ARRAY(BigInteger)), name=conv("changes_ids_check")),
        CheckConstraint(sound("names", ARRAY(Text)), name=conv("changes_names_check")),
        comment="what the stream of events tells, for some time; written by triggers",
    )
    op.add_column(
        "site",
        Column(
            "changes_from",
            TransactionNumber(),
            server_default=text("'0'"),
            nullable=False,
            comment="of transactions before this one, changes may be gone",
        ),
    )
    make(op.get_bind(), "functions", *_FUNCTIONS)


def downgrade() -> None:
    """Take it back."""
    for name in _FUNCTIONS:
        op.execute(f"DROP FUNCTION {name} CASCADE")
    op.drop_column("site", "changes_from")
    op.drop_table("changes")
