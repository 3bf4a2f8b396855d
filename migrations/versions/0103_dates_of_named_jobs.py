"""Jobs on named clusters have a date, as their broker reads it.

Revision ID: 0103
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import Connection, text

revision = "0103"
down_revision = "0102"

_DATE = """
UPDATE grid_jobs SET deadline = coalesce(started_at, submitted_at) WHERE kind = 'named' AND deadline IS NULL
"""


def _check(condition: str) -> None:
    name = "grid_jobs_deadline_of_kind"
    check = f"({condition}) OR (deadline IS NOT NULL)"
    op.execute(f"ALTER TABLE grid_jobs DROP CONSTRAINT {name}, ADD CONSTRAINT {name} CHECK ({check})")


def upgrade() -> None:
    """Refuse such jobs without a date; those that are there begin as soon as possible."""
    rows(op.get_bind())
    _check("kind NOT IN ('coallocated', 'named')")


def downgrade() -> None:
    """Refuse only components without a date that start together."""
    _check("kind <> 'coallocated'")


def rows(connection: Connection) -> None:
    """Give jobs on named clusters the date when they started or were submitted, if they have none."""
    connection.execute(text(_DATE))
