"""Patterns of what every job has name no number of characters: PostgreSQL takes 25 microseconds for one that does.

Revision ID: 0037
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0037"
down_revision = "0036"

_CHECKS = (
    ("jobs", "job_name", "job_name ~ '^[ -~]{0,200}$'", "(job_name ~ '^[ -~]*$') AND (length(job_name) <= 200)"),
    ("jobs", "project", "project ~ '^[ -~]{1,200}$'", "(project ~ '^[ -~]+$') AND (length(project) <= 200)"),
    (
        "resource_descriptions",
        "level",
        "level ~ '^[A-Za-z_][A-Za-z0-9_]{0,62}$'",
        "(level ~ '^[A-Za-z_][A-Za-z0-9_]*$') AND (length(level) <= 63)",
    ),
)


def upgrade() -> None:
    """Say the same in two conditions."""
    for table, column, _, condition in _CHECKS:
        _replace(table, column, condition)
    make(op.get_bind(), "functions", "jobs_moved")


def downgrade() -> None:
    """Say it in one again."""
    for table, column, condition, _ in _CHECKS:
        _replace(table, column, condition)


def _replace(table: str, column: str, condition: str) -> None:
    name = op.f(f"{table}_{column}_check")
    op.drop_constraint(name, table)
    op.create_check_constraint(name, table, condition)
