"""Schema oar_report: stable views for analysts.

Revision ID: 0002
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the schema and its views."""
    views = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    # many statements at once, in whose comments a % sign is a % sign
    op.get_bind().exec_driver_sql(views, execution_options={"no_parameters": True})


def downgrade() -> None:
    """Remove the views; they hold no data."""
    op.get_bind().exec_driver_sql("DROP SCHEMA oar_report CASCADE")
