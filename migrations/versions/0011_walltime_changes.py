"""Walltimes of running jobs may change.

Revision ID: 0011
"""

from __future__ import annotations

from alembic import op
from oarpy.migrations.statements import run_file

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Create the table of requests and what announces them."""
    run_file(__file__)


def downgrade() -> None:
    """Remove them; walltimes stay as they are."""
    op.execute("DROP TRIGGER walltime_changed ON jobs")
    op.execute("DROP TABLE walltime_changes")
    op.execute("DROP FUNCTION walltime_changed")
    op.execute("DROP FUNCTION walltime_asked")
