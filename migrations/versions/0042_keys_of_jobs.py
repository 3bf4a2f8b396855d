"""Live jobs have SSH keys.

Revision ID: 0042
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Text

revision = "0042"
down_revision = "0041"

TABLE = "job_keys"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        TABLE,
        Column(
            "job_id", BigInteger, primary_key=True, autoincrement=False, comment="the job; its key goes when it is over"
        ),
        Column("public_key", Text, nullable=False, comment="kind and content of the public half"),
        Column("private_key", Text, nullable=False, comment="the private half, as OpenSSH writes it"),
        comment="the SSH keys of live jobs (oarsub -k); for the nodes of the job and nobody else",
    )
    op.create_index("job_keys_public", TABLE, ["public_key"])


def downgrade() -> None:
    """Take it away."""
    op.drop_table(TABLE)
