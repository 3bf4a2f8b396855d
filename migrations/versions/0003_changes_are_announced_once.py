"""A statement that changes no row is not announced.

Revision ID: 0003
"""

from __future__ import annotations

from oarpy.migrations.statements import run_file

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Let the triggers look at the rows that changed."""
    run_file(__file__)


def downgrade() -> None:
    """Announce every statement again."""
    run_file(__file__, "_down")
