"""Jobs that ask for an amount of a block of an exclusive level, such as a GPU, share the block.

Revision ID: 0098
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0098"
down_revision = "0097"


def upgrade() -> None:
    """Let such jobs hold blocks together; count no GPU for them."""
    make(op.get_bind(), "functions", "hold_blocks", "shares_forgotten")
    make(op.get_bind(), "views", "jobs", "projects")


def downgrade() -> None:
    """Forget what the removal of a consumable means to GPUs. No row is in another form."""
    op.execute("DROP FUNCTION shares_forgotten CASCADE")
