"""Submissions have a kind, and what jobs of a kind used is counted by the day.

Revision ID: 0049
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, CheckConstraint, Column, Date, Double

from oarpy.store.schema.columns import INSTANT, sound
from oarpy.store.schema.statements import follow

revision = "0049"
down_revision = "0048"

_SUMS = {
    "jobs": (BigInteger, "how many ended well"),
    "run_seconds": (Double, "the longest run of any, without suspensions"),
    "busy_cores": (Double, "the most CPU seconds a second of run; NULL: not measured"),
    "memory_peak": (BigInteger, "the most bytes on one node; NULL: not measured"),
}
_MEASURED = ("busy_cores", "memory_peak")


def _condition(name: str, kind: type) -> str:
    """Return the condition on a sum: NaN comes after all numbers."""
    return (
        " AND ".join(f"({one})" for one in (f"{name} >= 0", sound(name, kind)) if one)
        if kind is Double
        else f"{name} >= 0"
    )


def upgrade() -> None:
    """Add the column, which the past of jobs follows, and the table."""
    op.add_column(
        "submissions", Column("kind", BigInteger, comment="number that submissions of the same kind share; NULL: none")
    )
    op.create_table(
        "job_kinds",
        Column("kind", BigInteger, primary_key=True, autoincrement=False, comment="the kind, as submissions have it"),
        Column("day", Date, primary_key=True, comment="the day in UTC"),
        *(Column(name, kind, nullable=name in _MEASURED, comment=meaning) for name, (kind, meaning) in _SUMS.items()),
        Column("considered_at", INSTANT, comment="when its user was last to be proposed a better request"),
        CheckConstraint("isfinite(day)", name=op.f("job_kinds_day_check")),
        *(
            CheckConstraint(_condition(name, kind), name=op.f(f"job_kinds_{name}_check"))
            for name, (kind, _) in _SUMS.items()
        ),
        CheckConstraint(sound("considered_at", INSTANT), name=op.f("job_kinds_considered_at_check")),
        comment="the most that jobs of a kind used, by the day of their end (UTC), counted when they are accounted",
    )
    follow(op.get_bind())


def downgrade() -> None:
    """Take them back."""
    op.drop_table("job_kinds")
    op.drop_column("submissions", "kind")
    follow(op.get_bind())
