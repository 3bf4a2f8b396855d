"""Jobs that ask for an amount of a block of an exclusive level, such as a GPU, share the block.

Revision ID: 0098
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0098"
down_revision = "0097"


# Jobs that already had such amounts were counted as having their GPUs alone.
_ROWS = """
    SELECT hold_blocks(array_agg(DISTINCT job_id)) FROM assigned_resources WHERE upper_inf(during) OR suspended;
    UPDATE site SET gpu_hours_since = greatest(gpu_hours_since, now())
    WHERE EXISTS (SELECT FROM consumables WHERE level = 'gpu')
"""


def upgrade() -> None:
    """Let such jobs hold blocks together; count no GPU for them."""
    make(op.get_bind(), "functions", "hold_blocks", "shares_forgotten")
    make(op.get_bind(), "views", "jobs", "projects")
    op.get_bind().exec_driver_sql(_ROWS, execution_options={"no_parameters": True})


def downgrade() -> None:
    """Forget what the removal of a consumable means to GPUs. No row is in another form."""
    op.execute("DROP FUNCTION shares_forgotten CASCADE")
