"""A reservation of a broker may take the place of another one.

Revision ID: 0075
"""

from __future__ import annotations

from alembic import op

revision = "0075"
down_revision = "0074"

_KIND = "grid_transactions_kind_check"
_WORDS = "'place', 'claim', 'reserve', 'move'"
_EVENTS = ("a transaction is about to withdraw it", ", or to put another one in its place")
_MOVE = "UPDATE door_moves SET event = '{}' WHERE (subject, from_state, to_state) = ('part', 'Committed', 'Frozen')"
_COLUMN = """
    ALTER TABLE door_parts ADD COLUMN instead_of BIGINT;
    COMMENT ON COLUMN door_parts.instead_of IS 'the reservation whose place it is to take, or took';
    ALTER TABLE door_parts ADD CONSTRAINT door_parts_reserved_instead CHECK (instead_of IS NULL OR kind = 'reserved');
    CREATE INDEX door_parts_amending ON door_parts (instead_of)
        WHERE instead_of IS NOT NULL AND lapses_at IS NOT NULL
"""


def upgrade() -> None:
    """Let door_parts say whose place a part takes, and transactions of brokers be of that kind."""
    op.execute(_COLUMN)
    op.execute(_MOVE.format("".join(_EVENTS)))
    op.drop_constraint(op.f(_KIND), "grid_transactions")
    op.create_check_constraint(op.f(_KIND), "grid_transactions", f"kind IN ({_WORDS}, 'amend')")


def downgrade() -> None:
    """Forget it. What is to take the place of another one is a reservation as others are, and lapses."""
    op.execute("ALTER TABLE door_parts DROP COLUMN instead_of")
    op.execute(_MOVE.format(_EVENTS[0]))
    op.execute("UPDATE grid_transactions SET kind = 'move' WHERE kind = 'amend'")
    op.drop_constraint(op.f(_KIND), "grid_transactions")
    op.create_check_constraint(op.f(_KIND), "grid_transactions", f"kind IN ({_WORDS})")
