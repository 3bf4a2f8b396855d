"""Walltimes of running jobs may change.

Revision ID: 0011
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Create the table of requests and what announces them."""
    statements = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(statements, execution_options={"no_parameters": True})


def downgrade() -> None:
    """Remove them; walltimes stay as they are."""
    op.execute("DROP TRIGGER walltime_changed ON jobs")
    op.execute("DROP TABLE walltime_changes")
    op.execute("DROP FUNCTION walltime_changed")
    op.execute("DROP FUNCTION walltime_asked")
