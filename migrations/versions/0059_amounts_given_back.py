"""A job that gives hosts back gives back the amounts that it had there.

Revision ID: 0059
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0059"
down_revision = "0058"

_ASSIGNED = """
CREATE OR REPLACE FUNCTION amounts_assigned() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM consumables) THEN
        INSERT INTO assigned_amounts (job_id, consumable, block, amount, during)
            SELECT j.job_id, c.name, to_jsonb(r) ->> c.level, min(d.amount), tstzrange(min(lower(g.during)), NULL)
            FROM given g JOIN jobs j USING (job_id)
                JOIN consumption_descriptions d ON d.moldable_id = j.moldable_id
                JOIN consumables c ON c.name = d.consumable
                JOIN resources r ON r.resource_id = g.resource_id
            WHERE upper_inf(g.during) AND to_jsonb(r) ->> c.level IS NOT NULL
            GROUP BY 1, 2, 3
            ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$
"""


def upgrade() -> None:
    """Have amounts go, and come again, with the hosts of their blocks."""
    make(op.get_bind(), "functions", "amounts_left", "amounts_assigned")


def downgrade() -> None:
    """Let them stay with the job until its end."""
    for name in ("amounts_left", "amounts_returned"):
        op.execute(f"DROP TRIGGER {name} ON assigned_resources")
    op.execute("DROP FUNCTION amounts_left")
    op.execute(_ASSIGNED)
