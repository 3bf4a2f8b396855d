"""The date until which a resource is available is a date; what was infinite is far away now.

Revision ID: 0017
"""

from __future__ import annotations

from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Refuse infinite dates, which clients cannot read."""
    op.execute(
        "UPDATE resources SET available_upto = CASE WHEN available_upto > now() THEN timestamptz '2099-01-01' END"
        " WHERE NOT isfinite(available_upto)"
    )
    op.execute("ALTER TABLE resources ADD CONSTRAINT resources_available_upto_check CHECK (isfinite(available_upto))")


def downgrade() -> None:
    """Let them be anything again."""
    op.execute("ALTER TABLE resources DROP CONSTRAINT resources_available_upto_check")
