"""A job that was missed because a cluster was silent is over after all when all of its parts turn out to have run.

Revision ID: 0073
"""

from __future__ import annotations

from alembic import op

revision = "0073"
down_revision = "0072"

_ADD = """
INSERT INTO grid_transitions (subject, from_state, to_state, event)
VALUES ('job', 'Missed', 'Terminated', 'a silent cluster was heard again: all parts had run to their end')
"""


def upgrade() -> None:
    """Allow it."""
    op.execute(_ADD)


def downgrade() -> None:
    """Refuse it."""
    op.execute("DELETE FROM grid_transitions WHERE (subject, from_state, to_state) = ('job', 'Missed', 'Terminated')")
