"""Quotas may hold at some times of the week only, and other ones on certain dates.

Revision ID: 0010
"""

from __future__ import annotations

from oarpy.migrations.statements import run_file

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Create the sets of rules and their periods; the rules there are belong to no set and hold always."""
    run_file(__file__)


def downgrade() -> None:
    """Drop them, and the rules that held at certain times only."""
    run_file(__file__, "_down")
