"""A statement that changes no row is not announced.

Revision ID: 0003
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Let the triggers look at the rows that changed."""
    _run(Path(__file__).with_suffix(".sql"))


def downgrade() -> None:
    """Announce every statement again."""
    path = Path(__file__)
    _run(path.with_name(f"{path.stem}_down.sql"))


def _run(statements: Path) -> None:
    # many statements at once, whose % signs are PL/pgSQL's
    op.get_bind().exec_driver_sql(statements.read_text(encoding="utf-8"), execution_options={"no_parameters": True})
