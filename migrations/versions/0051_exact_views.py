"""Applications may be told which hosts are free throughout, and are told when clusters or their links change.

Revision ID: 0051
"""

from __future__ import annotations

from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from oarpy.store.schema.columns import column
from oarpy.store.schema.statements import follow, make

revision = "0051"
down_revision = "0050"


def upgrade() -> None:
    """Add the columns; links are announced."""
    op.add_column(
        "applications",
        column(
            "free_groups",
            JSONB,
            "hosts free throughout: number of their last change and groups, by cluster",
            default="{}",
        ),
    )
    op.add_column(
        "applications",
        column(
            "informed", JSONB, "clusters whose facts or links it was told of: views and marks of these", default="{}"
        ),
    )
    make(op.get_bind(), "functions", "wrong_application_move")
    follow(op.get_bind())


def downgrade() -> None:
    """Take them back."""
    for name in ("announced_new", "announced", "announced_gone"):
        op.execute(f"DROP TRIGGER {name} ON cluster_links")
    op.drop_column("applications", "informed")
    op.drop_column("applications", "free_groups")
    follow(op.get_bind())
