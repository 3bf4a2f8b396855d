"""Analysts see what bags were promised, and what came of it; who asked to be told hears of promises.

Revision ID: 0086
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0086"
down_revision = "0085"

_TAGS = ("RUNNING", "END", "ERROR", "INFO", "SUSPENDED", "RESUMING", "MOVED")
_FORMER = r"""
CREATE OR REPLACE FUNCTION events_noticed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO notices (job_id, tag, comment)
        SELECT e.job_id, CASE e.type WHEN 'RESERVATION_MOVED' THEN 'MOVED' ELSE 'INFO' END,
               e.type || ': ' || e.description
        FROM new_events e JOIN jobs j USING (job_id)
        WHERE j.notify <> '' AND e.type NOT LIKE 'USER\_%\_NOTIFICATION%'
        ORDER BY e.event_id;
    INSERT INTO notices (tag, comment)
        SELECT 'INFO', e.type || ' ' || array_to_string(e.hosts, ' ') || ': ' || e.description
        FROM new_events e WHERE e.hosts <> '{}' ORDER BY e.event_id;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION events_noticed IS 'queue the news of an event for whom it concerns';
"""


def _allow(*tags: str) -> None:
    op.execute("ALTER TABLE notices DROP CONSTRAINT notices_tag_check")
    named = ", ".join(f"'{tag}'" for tag in tags)
    op.execute(f"ALTER TABLE notices ADD CONSTRAINT notices_tag_check CHECK (tag IN ({named}))")


def upgrade() -> None:
    """Make the view, and tags of their own for promises."""
    _allow(*_TAGS, "PROMISED", "IMPROVED")
    make(op.get_bind(), "views", "promises")


def downgrade() -> None:
    """Take the view back; promises are told as other news."""
    op.execute("DROP VIEW oar_report.promises")
    op.get_bind().exec_driver_sql(_FORMER, execution_options={"no_parameters": True})
    op.execute("UPDATE notices SET tag = 'INFO' WHERE tag IN ('PROMISED', 'IMPROVED')")
    _allow(*_TAGS)
