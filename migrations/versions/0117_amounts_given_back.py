"""A suspended job may give amounts of consumables back with its resources.

Revision ID: 0117
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0117"
down_revision = "0116"

_FORMER = """
CREATE OR REPLACE FUNCTION holdings_kept() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE held record;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        SELECT j.job_id, j.state INTO held
            FROM (SELECT job_id, consumable, block FROM gone WHERE upper_inf(during)
                  EXCEPT SELECT job_id, consumable, block FROM kept WHERE upper_inf(during)) AS g
                JOIN jobs j USING (job_id) JOIN job_states s ON s.state = j.state AND s.holding
            ORDER BY 1 LIMIT 1;
    ELSE
        SELECT j.job_id, j.state INTO held FROM gone g JOIN jobs j USING (job_id)
            JOIN job_states s ON s.state = j.state AND s.holding
            ORDER BY 1 LIMIT 1;
    END IF;
    IF FOUND THEN
        RAISE EXCEPTION 'job % is % and keeps what it holds until it is over', held.job_id, held.state
            USING ERRCODE = 'check_violation', HINT = format('end it with oardel %s', held.job_id);
    END IF;
    RETURN NULL;
END $$;
"""


def upgrade() -> None:
    """Let the launcher take amounts from a suspended job that has given resources back."""
    make(op.get_bind(), "functions", "holdings_kept")


def downgrade() -> None:
    """Have a job keep its amounts until it is over."""
    op.get_bind().exec_driver_sql(_FORMER, execution_options={"no_parameters": True})
