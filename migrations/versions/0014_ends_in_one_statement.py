"""A job that started and ended between two looks at it moves by one statement; its log shows every state.

Revision ID: 0014
"""

from __future__ import annotations

from oarpy.migrations.statements import run_file

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add the passages, and functions that know them."""
    run_file(__file__)


def downgrade() -> None:
    """Take them away; functions as they were."""
    run_file(__file__, "_down")
