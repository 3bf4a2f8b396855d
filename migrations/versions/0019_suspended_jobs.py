"""Suspended jobs give resources back, and their walltime stands still.

Revision ID: 0019
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Add what is known of suspended jobs."""
    _run(Path(__file__).with_suffix(".sql"))


def downgrade() -> None:
    """Take it away; suspended jobs lose what they gave back."""
    path = Path(__file__)
    _run(path.with_name(f"{path.stem}_down.sql"))


def _run(statements: Path) -> None:
    op.get_bind().exec_driver_sql(statements.read_text(encoding="utf-8"), execution_options={"no_parameters": True})
