"""Amounts of what is divided among jobs, such as the memory of hosts: declared, asked for, held.

Revision ID: 0012
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Create the tables, and what keeps jobs from holding more than there is."""
    _run(Path(__file__).with_suffix(".sql"))


def downgrade() -> None:
    """Take them away, with what jobs asked for and held."""
    path = Path(__file__)
    _run(path.with_name(f"{path.stem}_down.sql"))


def _run(statements: Path) -> None:
    op.get_bind().exec_driver_sql(statements.read_text(encoding="utf-8"), execution_options={"no_parameters": True})
