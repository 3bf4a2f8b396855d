"""A quota rule is of a level: on each level the most specific rule applies, and those of all levels bind.

Revision ID: 0065
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0065"
down_revision = "0064"

_MEANING = "of the rules of one level the most specific applies to a job; those of different levels all do"
_KEY = ["queue_name", "project", "job_type", "user_name", "set_name"]


def upgrade() -> None:
    """Put all rules on the default level."""
    op.add_column("quotas", sa.Column("level", sa.Text, nullable=False, server_default="default", comment=_MEANING))
    op.create_check_constraint(op.f("quotas_level_check"), "quotas", "level ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$'")
    _unique([*_KEY, "level"])


def downgrade() -> None:
    """Keep the rules of the default level; the others would limit other jobs than they did."""
    op.execute("DELETE FROM quotas WHERE level <> 'default'")
    _unique(_KEY)
    op.drop_column("quotas", "level")


def _unique(columns: list[str]) -> None:
    """Have one rule for each value of ``columns``."""
    op.drop_constraint(op.f("one_rule_a_key"), "quotas")
    op.create_unique_constraint(op.f("one_rule_a_key"), "quotas", columns, postgresql_nulls_not_distinct=True)
