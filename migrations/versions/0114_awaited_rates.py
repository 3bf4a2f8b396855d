"""Clusters know for which brokers they measure rates.

Revision ID: 0114
"""

from __future__ import annotations

from alembic import op

revision = "0114"
down_revision = "0113"

_COLUMNS = """
ALTER TABLE rate_measurements ADD COLUMN awaited_by TEXT[] DEFAULT '{}' NOT NULL;
COMMENT ON COLUMN rate_measurements.awaited_by IS
    'calls of brokers whose jobs wait for its rates: name of the broker, and key of the call';
ALTER TABLE grid_programs ADD COLUMN measured_on TEXT[] DEFAULT '{}' NOT NULL;
COMMENT ON COLUMN grid_programs.measured_on IS
    'clusters that may measure its rates, and do not know yet that it is over';
ALTER TABLE rate_measurements ADD CONSTRAINT rate_measurements_awaited_by_check CHECK (
    awaited_by = '{}' OR array_ndims(awaited_by) = 1 AND array_position(awaited_by, NULL) IS NULL);
ALTER TABLE grid_programs ADD CONSTRAINT grid_programs_measured_on_check CHECK (
    measured_on = '{}' OR array_ndims(measured_on) = 1 AND array_position(measured_on, NULL) IS NULL);
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
