"""What a try of a broker came to, and what a transaction changes, has the words that are written and no others.

Revision ID: 0064
"""

from __future__ import annotations

from alembic import op

revision = "0064"
down_revision = "0063"

_KIND, _OUTCOME = "grid_transactions_kind_check", "grid_tries_outcome_check"
_WORDS = "'place', 'claim', 'reserve', 'move'"
_MEANING, _BEFORE = (f"claimed, no room{rest}; empty: not yet" for rest in (" or refused", ", refused, or silent"))


def upgrade() -> None:
    """Refuse the others."""
    op.drop_constraint(op.f(_KIND), "grid_transactions")
    op.create_check_constraint(op.f(_KIND), "grid_transactions", f"kind IN ({_WORDS})")
    op.create_check_constraint(op.f(_OUTCOME), "grid_tries", "outcome IN ('', 'claimed', 'no room', 'refused')")
    op.alter_column("grid_tries", "outcome", comment=_MEANING)


def downgrade() -> None:
    """Allow them again."""
    op.alter_column("grid_tries", "outcome", comment=_BEFORE)
    op.drop_constraint(op.f(_OUTCOME), "grid_tries")
    op.drop_constraint(op.f(_KIND), "grid_transactions")
    op.create_check_constraint(op.f(_KIND), "grid_transactions", f"kind IN ({_WORDS}, 'withdraw')")
