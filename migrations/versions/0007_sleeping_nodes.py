"""Nodes may sleep to save energy: what was asked of them is kept.

Revision ID: 0007
"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"

_COMMENTS = {
    "network_address": "the node",
    "asked": "what it is to do: sleep or wake",
    "asked_at": "when that was decided",
    "sent_at": "when the command for it was run; NULL: not yet",
}


def upgrade() -> None:
    """Create the table."""
    op.execute(
        "CREATE TABLE node_power ("
        " network_address text PRIMARY KEY REFERENCES nodes ON DELETE CASCADE,"
        " asked text NOT NULL CHECK (asked IN ('sleep', 'wake')),"
        " asked_at timestamptz NOT NULL DEFAULT now(),"
        " sent_at timestamptz)"
    )
    op.execute("COMMENT ON TABLE node_power IS 'nodes that sleep to save energy, or are being woken'")
    for column, text in _COMMENTS.items():
        op.execute(f"COMMENT ON COLUMN node_power.{column} IS '{text}'")


def downgrade() -> None:
    """Nodes that sleep stay Absent."""
    op.execute("DROP TABLE node_power")
