"""Suspended jobs give resources back, and their walltime stands still.

Revision ID: 0019
"""

from __future__ import annotations

from oarpy.migrations.statements import run_file

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Add what is known of suspended jobs."""
    run_file(__file__)


def downgrade() -> None:
    """Take it away; suspended jobs lose what they gave back."""
    run_file(__file__, "_down")
