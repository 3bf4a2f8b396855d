"""Programs over several clusters begin when all parts are ready.

Revision ID: 0085
"""

from __future__ import annotations

from alembic import op

revision = "0085"
down_revision = "0084"

_COLUMN = """
ALTER TABLE {table} ADD COLUMN {name} TIMESTAMP WITH TIME ZONE CONSTRAINT {table}_{name}_check
    CHECK (({name} >= TIMESTAMPTZ '1970-01-01 00:00:00+00') AND ({name} < TIMESTAMPTZ '3000-01-01 00:00:00+00'));
COMMENT ON COLUMN {table}.{name} IS '{words}';
"""
_LAPSES = "its broker opens it when all parts are ready, until then; NULL: a date does"
_BEGUN = "when its program was told to begin there; NULL: not yet"


def upgrade() -> None:
    """Let gates be opened by brokers, and note when programs were told to begin."""
    op.execute(_COLUMN.format(table="launch_gates", name="lapses_at", words=_LAPSES))
    op.execute(_COLUMN.format(table="grid_metajobs", name="begun_at", words=_BEGUN))


def downgrade() -> None:
    """Let all parts begin at their dates."""
    op.execute("ALTER TABLE grid_metajobs DROP COLUMN begun_at")
    op.execute("ALTER TABLE launch_gates DROP COLUMN lapses_at")
