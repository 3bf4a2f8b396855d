"""Maps say how the cores of a type take turns.

Revision ID: 0102
"""

from __future__ import annotations

from alembic import op

revision = "0102"
down_revision = "0101"


def upgrade() -> None:
    """Describe the column; maps that are there say so little that their cores take turns process by process."""
    _describe("by type of node, as its cores take turns: size, processes, seconds that one takes, how many a core has")


def downgrade() -> None:
    """Describe it as before."""
    _describe("by type of node: sizes, heaviest first, with the processes and the seconds that one takes")


def _describe(meaning: str) -> None:
    op.execute(f"COMMENT ON COLUMN mapped_jobs.assigned IS '{meaning}'")
