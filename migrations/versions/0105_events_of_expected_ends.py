"""The stream of events has each change of what is expected of a bag; nobody is told each of them.

Revision ID: 0105
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0105"
down_revision = "0104"

_FORMER = r"""
CREATE OR REPLACE FUNCTION events_noticed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO notices (job_id, tag, comment)
        SELECT e.job_id, CASE WHEN e.type = 'RESERVATION_MOVED' THEN 'MOVED'
                              WHEN e.type IN ('PROMISED', 'IMPROVED', 'END') THEN e.type ELSE 'INFO' END,
               e.type || ': ' || e.description
        FROM new_events e JOIN jobs j USING (job_id)
        WHERE j.notify <> '' AND e.type NOT LIKE 'USER\_%\_NOTIFICATION%'
        ORDER BY e.event_id;
    INSERT INTO notices (tag, comment)
        SELECT 'INFO', e.type || ' ' || array_to_string(e.hosts, ' ') || ': ' || e.description
        FROM new_events e WHERE e.hosts <> '{}' ORDER BY e.event_id;
    RETURN NULL;
END $$;
"""


def upgrade() -> None:
    """Queue no notice of such events."""
    make(op.get_bind(), "functions", "events_noticed")


def downgrade() -> None:
    """Queue notices of all news of a job."""
    op.get_bind().exec_driver_sql(_FORMER, execution_options={"no_parameters": True})
