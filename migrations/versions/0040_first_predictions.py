"""Jobs are told in which interval they will start, and that is compared with their starts.

Revision ID: 0040
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Integer
from sqlalchemy.sql.elements import conv

from oarpy.store.schema.columns import INSTANT, sound
from oarpy.store.schema.statements import make

revision = "0040"
down_revision = "0039"

TABLE = "first_predictions"
INSTANTS = ("made_at", "planned_start", "earliest_start", "latest_start")
RULES = {
    f"{TABLE}_learnt_from_check": "learnt_from >= 0",
    "planned_ahead": "planned_start >= made_at",
    "interval_whole": "(earliest_start IS NULL) = (latest_start IS NULL)",
    "interval_forward": "latest_start >= earliest_start",
}


def upgrade() -> None:
    """Create the table and the view."""
    conditions = {**{f"{TABLE}_{name}_check": sound(name, INSTANT) for name in INSTANTS}, **RULES}
    op.create_table(
        TABLE,
        Column(
            "job_id", BigInteger, ForeignKey("jobs.job_id", ondelete="CASCADE"), primary_key=True, comment="the job"
        ),
        Column("made_at", INSTANT, nullable=False, comment="when that pass was"),
        Column("planned_start", INSTANT, nullable=False, comment="start in its plan, by walltimes"),
        Column("earliest_start", INSTANT, comment="begin of the interval that was told; NULL: too few past starts"),
        Column("latest_start", INSTANT, comment="end of the interval"),
        Column(
            "learnt_from",
            Integer,
            server_default="0",
            nullable=False,
            comment="past starts that it was learnt from",
        ),
        *(CheckConstraint(text, name=conv(name)) for name, text in conditions.items()),
        comment="what jobs that had to wait were told of their start when a pass first foresaw one; it stays, to be"
        " compared",
    )
    make(op.get_bind(), "views", "prediction_accuracy")


def downgrade() -> None:
    """Take them away, and what follows the table."""
    op.execute("DROP VIEW IF EXISTS oar_report.prediction_accuracy")
    op.execute("DROP VIEW IF EXISTS oar_all.first_predictions")
    op.execute("DROP TABLE IF EXISTS oar_past.first_predictions")
    op.drop_table(TABLE)
