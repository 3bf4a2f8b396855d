"""Dependencies may leave a window of time; a verdict for jobs that their dates keep waiting.

Revision ID: 0008
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the columns of the window, and the verdict."""
    _run(Path(__file__).with_suffix(".sql"))


def downgrade() -> None:
    """Take them away."""
    path = Path(__file__)
    _run(path.with_name(f"{path.stem}_down.sql"))


def _run(statements: Path) -> None:
    op.get_bind().exec_driver_sql(statements.read_text(encoding="utf-8"), execution_options={"no_parameters": True})
