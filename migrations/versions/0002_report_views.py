"""Schema oar_report: stable views for analysts.

Revision ID: 0002
"""

from __future__ import annotations

from alembic import op
from oarpy.migrations.statements import run_file

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the schema and its views."""
    run_file(__file__)


def downgrade() -> None:
    """Remove the views; they hold no data."""
    op.get_bind().exec_driver_sql("DROP SCHEMA oar_report CASCADE")
