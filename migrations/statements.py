"""The SQL of migrations that stands in files beside them."""

from __future__ import annotations

from pathlib import Path

from alembic import op


def run_file(migration: str, ending: str = "") -> None:
    """Run the file named as ``migration``, the path of a module, with ``ending`` after the name."""
    path = Path(migration)
    run(path.with_name(f"{path.stem}{ending}.sql").read_text(encoding="utf-8"))


def run(statements: str) -> None:
    """Run one or many statements at once; their % signs are those of PL/pgSQL and of comments."""
    op.get_bind().exec_driver_sql(statements, execution_options={"no_parameters": True})
