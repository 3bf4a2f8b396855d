"""Dependencies may leave a window of time; a verdict for jobs that their dates keep waiting.

Revision ID: 0008
"""

from __future__ import annotations

from oarpy.migrations.statements import run_file

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the columns of the window, and the verdict."""
    run_file(__file__)


def downgrade() -> None:
    """Take them away."""
    run_file(__file__, "_down")
