"""A start that was offered is taken by asking the refused question again.

Revision ID: 0107
"""

from __future__ import annotations

from alembic import op

revision = "0107"
down_revision = "0106"

_COLUMNS = (
    ("reservation_windows", "take", "offered start that it takes if its window cannot be had; NULL: none"),
    ("reservation_offers", "asked_ready", "earliest start in the other window that was refused; NULL: at once"),
    (
        "reservation_offers",
        "asked_deadline",
        "end of the other window that a reservation was refused; NULL: that of its submission",
    ),
)


def upgrade() -> None:
    """Keep the window that was refused with each offer, and the offered start that a question takes."""
    for table, name, comment in _COLUMNS:
        op.execute(
            f"""
            ALTER TABLE {table} ADD COLUMN {name} TIMESTAMP WITH TIME ZONE CONSTRAINT {table}_{name}_check
                CHECK (({name} >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
                    AND ({name} < TIMESTAMPTZ '3000-01-01 00:00:00+00'));
            COMMENT ON COLUMN {table}.{name} IS '{comment}';
            """
        )


def downgrade() -> None:
    """Forget both: who takes an offer asks for its start alone."""
    for table, name, _ in _COLUMNS:
        op.execute(f"ALTER TABLE {table} DROP COLUMN {name}")
