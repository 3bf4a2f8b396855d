"""What is done when jobs change their states takes time in proportion to them, however many they are.

Revision ID: 0020
"""

from __future__ import annotations

from oarpy.migrations.statements import run_file

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Plan anew for many jobs."""
    run_file(__file__)


def downgrade() -> None:
    """Use the plans that are there."""
    run_file(__file__, "_down")
