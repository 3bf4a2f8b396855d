"""What is done when jobs change their states takes time in proportion to them, however many they are.

Revision ID: 0020
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Plan anew for many jobs."""
    _run(Path(__file__).with_suffix(".sql"))


def downgrade() -> None:
    """Use the plans that are there."""
    path = Path(__file__)
    _run(path.with_name(f"{path.stem}_down.sql"))


def _run(statements: Path) -> None:
    op.get_bind().exec_driver_sql(statements.read_text(encoding="utf-8"), execution_options={"no_parameters": True})
