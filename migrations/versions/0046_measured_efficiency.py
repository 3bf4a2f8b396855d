"""Jobs have what they used: CPU time and the most memory.

Revision ID: 0046
"""

from __future__ import annotations

from alembic import context, op
from sqlalchemy import BigInteger, Column, Double

from oarpy.store.schema.columns import sound
from oarpy.store.schema.statements import make

revision = "0046"
down_revision = "0045"

_COLUMNS = {
    "cpu_seconds": (Double, "user and system time of its processes on all its nodes; NULL when nobody measured it"),
    "memory_peak": (
        BigInteger,
        "the most bytes of memory that its processes had on one node; NULL when nobody measured it",
    ),
}


def upgrade() -> None:
    """Add the columns, and the views over them."""
    for name, (kind, meaning) in _COLUMNS.items():
        op.add_column("jobs", Column(name, kind, comment=meaning))
        conditions = [f"{name} >= 0", *filter(None, [sound(name, kind)])]
        whole = conditions[0] if len(conditions) == 1 else " AND ".join(f"({one})" for one in conditions)
        op.create_check_constraint(op.f(f"jobs_{name}_check"), "jobs", whole)
    make(op.get_bind(), "views", "efficiency")


def downgrade() -> None:
    """Take them back."""
    op.execute("DROP VIEW IF EXISTS oar_report.efficiency")
    context.config.attributes["views"].forget("oar_report", "efficiency")
    for name in reversed(_COLUMNS):
        op.drop_column("jobs", name)
