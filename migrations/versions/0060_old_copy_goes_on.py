"""A part that was to be deleted goes on if its cluster let it go on before it heard of that.

Revision ID: 0060
"""

from __future__ import annotations

from alembic import op

revision = "0060"
down_revision = "0059"

_ADD = """
INSERT INTO grid_transitions (subject, from_state, to_state, event)
VALUES ('part', 'Deleting', 'Waiting', 'its cluster let it go on before it heard of the decision')
"""


def upgrade() -> None:
    """Allow it."""
    op.execute(_ADD)


def downgrade() -> None:
    """Refuse it."""
    op.execute("DELETE FROM grid_transitions WHERE (subject, from_state, to_state) = ('part', 'Deleting', 'Waiting')")
