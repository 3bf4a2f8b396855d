"""What jobs ask for of the hours of projects is kept, and a view says what is left.

Revision ID: 0092
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0092"
down_revision = "0091"

_COLUMNS = """
ALTER TABLE submissions ADD COLUMN asked_units DOUBLE PRECISION CONSTRAINT submissions_asked_units_check
    CHECK ((asked_units >= 0) AND (asked_units BETWEEN -9007199254740992 AND 9007199254740992));
COMMENT ON COLUMN submissions.asked_units IS
    'billing units, in hours, that each job of it asks for, where projects pay; NULL: nobody counted';
ALTER TABLE scheduling_passes ADD COLUMN billing_weights JSONB DEFAULT '{"core": 1}' NOT NULL
    CONSTRAINT scheduling_passes_billing_weights_check CHECK (jsonb_typeof(billing_weights) = 'object');
COMMENT ON COLUMN scheduling_passes.billing_weights IS
    'what an hour of each kind of resource is billed, as the settings say';
"""


def upgrade() -> None:
    """Add the columns, and the view."""
    op.get_bind().exec_driver_sql(_COLUMNS, execution_options={"no_parameters": True})
    make(op.get_bind(), "views", "projects")


def downgrade() -> None:
    """Forget what was asked for."""
    op.execute(
        "DROP VIEW IF EXISTS oar_report.projects; ALTER TABLE submissions DROP COLUMN asked_units;"
        " ALTER TABLE scheduling_passes DROP COLUMN billing_weights"
    )
