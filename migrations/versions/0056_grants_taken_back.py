"""A grant that is taken back still says of which extension it was.

Revision ID: 0056
"""

from __future__ import annotations

from alembic import op

revision = "0056"
down_revision = "0053"

_TABLE, _RULE = "resizes", "resizes_grant_extensions"


def upgrade() -> None:
    """Let what is taken be of an extension."""
    op.drop_constraint(op.f(_RULE), _TABLE)
    op.create_check_constraint(op.f(_RULE), _TABLE, "kind = 'take' OR (kind = 'grant') = (extension_id IS NOT NULL)")


def downgrade() -> None:
    """Let it be of none."""
    op.execute("UPDATE resizes SET extension_id = NULL WHERE kind = 'take'")
    op.drop_constraint(op.f(_RULE), _TABLE)
    op.create_check_constraint(op.f(_RULE), _TABLE, "(kind = 'grant') = (extension_id IS NOT NULL)")
