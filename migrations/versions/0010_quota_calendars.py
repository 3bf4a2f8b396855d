"""Quotas may hold at some times of the week only, and other ones on certain dates.

Revision ID: 0010
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Create the sets of rules and their periods; the rules there are belong to no set and hold always."""
    _run(Path(__file__).with_suffix(".sql"))


def downgrade() -> None:
    """Drop them, and the rules that held at certain times only."""
    path = Path(__file__)
    _run(path.with_name(f"{path.stem}_down.sql"))


def _run(statements: Path) -> None:
    op.get_bind().exec_driver_sql(statements.read_text(encoding="utf-8"), execution_options={"no_parameters": True})
