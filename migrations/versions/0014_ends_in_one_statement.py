"""A job that started and ended between two looks at it moves by one statement; its log shows every state.

Revision ID: 0014
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add the passages, and functions that know them."""
    _run(Path(__file__).with_suffix(".sql"))


def downgrade() -> None:
    """Take them away; functions as they were."""
    path = Path(__file__)
    _run(path.with_name(f"{path.stem}_down.sql"))


def _run(statements: Path) -> None:
    op.get_bind().exec_driver_sql(statements.read_text(encoding="utf-8"), execution_options={"no_parameters": True})
