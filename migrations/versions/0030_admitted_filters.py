"""A submission keeps its filters as the admission rules left them, so that advice names only what the user wrote.

Revision ID: 0030
"""

from __future__ import annotations

from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    """Add the column; of older submissions it is not known."""
    op.execute("ALTER TABLE submissions ADD admitted_filters text[] NOT NULL DEFAULT '{}'")
    op.execute(
        "ALTER TABLE submissions ADD CONSTRAINT submissions_admitted_filters_check CHECK ((admitted_filters = '{}') OR"
        " ((array_ndims(admitted_filters) = 1) AND (array_position(admitted_filters, NULL) IS NULL)))"
    )
    op.execute(
        "COMMENT ON COLUMN submissions.admitted_filters IS"
        " 'filters as the admission rules left them, that of the job first; empty: not known'"
    )


def downgrade() -> None:
    """Take it away."""
    op.drop_column("submissions", "admitted_filters")
