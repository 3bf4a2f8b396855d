"""Clusters know for which brokers they measure rates.

Revision ID: 0113
"""

from __future__ import annotations

from alembic import op

revision = "0113"
down_revision = "0112"

_COLUMNS = """
ALTER TABLE rate_measurements ADD COLUMN awaited_by TEXT[] DEFAULT '{}' NOT NULL;
COMMENT ON COLUMN rate_measurements.awaited_by IS
    'calls of brokers whose jobs wait for its rates: name of the broker, and key of the call';
ALTER TABLE grid_programs ADD COLUMN measured_on TEXT[] DEFAULT '{}' NOT NULL;
COMMENT ON COLUMN grid_programs.measured_on IS
    'clusters that may measure its rates, and do not know yet that it is over';
CREATE INDEX grid_programs_measured ON grid_programs (job) WHERE measured_on <> '{}';
"""


def upgrade() -> None:
    """Make the columns."""
    op.execute(_COLUMNS)


def downgrade() -> None:
    """Drop them: jobs that measure go on after the jobs of brokers that they measure for."""
    op.execute("""
        ALTER TABLE rate_measurements DROP COLUMN awaited_by;
        ALTER TABLE grid_programs DROP COLUMN measured_on;
    """)
