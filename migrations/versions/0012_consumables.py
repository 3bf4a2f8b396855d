"""Amounts of what is divided among jobs, such as the memory of hosts: declared, asked for, held.

Revision ID: 0012
"""

from __future__ import annotations

from oarpy.migrations.statements import run_file

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Create the tables, and what keeps jobs from holding more than there is."""
    run_file(__file__)


def downgrade() -> None:
    """Take them away, with what jobs asked for and held."""
    run_file(__file__, "_down")
