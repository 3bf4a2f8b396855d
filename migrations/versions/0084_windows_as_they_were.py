"""How windows of reservations were is kept.

Revision ID: 0084
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import Connection

from oarpy.store.schema.statements import make

revision = "0084"
down_revision = "0083"

_INSTANT = """{0} TIMESTAMP WITH TIME ZONE{1} CONSTRAINT window_changes_{0}_check
        CHECK (({0} >= TIMESTAMPTZ '1970-01-01 00:00:00+00') AND ({0} < TIMESTAMPTZ '3000-01-01 00:00:00+00'))"""
_TABLE = f"""
CREATE TABLE window_changes (
    job_id BIGINT NOT NULL,
    {_INSTANT.format("at", " DEFAULT clock_timestamp() NOT NULL")},
    {_INSTANT.format("ready", "")},
    {_INSTANT.format("deadline", "")},
    {_INSTANT.format("start_time", "")},
    fixed BOOLEAN NOT NULL,
    CONSTRAINT window_changes_job_id_fkey FOREIGN KEY(job_id) REFERENCES jobs (job_id) ON DELETE CASCADE
);
CREATE INDEX window_changes_job ON window_changes (job_id, at);
COMMENT ON TABLE window_changes IS
    'windows of reservations as they were, a row whenever one changed, or its reservation moved';
COMMENT ON COLUMN window_changes.job_id IS 'the job';
COMMENT ON COLUMN window_changes.at IS 'since when it was so';
COMMENT ON COLUMN window_changes.ready IS 'its earliest start then; NULL: at once';
COMMENT ON COLUMN window_changes.deadline IS 'its latest end then; NULL: it had no window any more';
COMMENT ON COLUMN window_changes.start_time IS 'its start then';
COMMENT ON COLUMN window_changes.fixed IS 'it no longer moved';
"""
_OF_NOW = """
INSERT INTO window_changes (job_id, ready, deadline, start_time, fixed)
    SELECT w.job_id, w.ready, w.deadline, j.reservation_start, w.fixed_at IS NOT NULL
    FROM reservation_windows w JOIN jobs j USING (job_id) WHERE j.state IN ('Waiting', 'Hold')
"""
_FORMER = """
DROP TRIGGER window_place_noted ON jobs;
DROP FUNCTION window_place_noted;
DROP TABLE window_changes;
CREATE OR REPLACE FUNCTION window_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM changed) THEN
        PERFORM announce(ARRAY['job changed']);
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION window_changed IS 'tell passes that somebody gave, changed or took the window of a reservation';
"""


def upgrade() -> None:
    """Make the table and what fills it; windows are from now on what they are now."""
    op.execute(_TABLE)
    make(op.get_bind(), "functions", "window_changed", "window_place_noted")
    rows(op.get_bind())


def rows(connection: Connection) -> None:
    """Note the windows of reservations that are not over."""
    connection.exec_driver_sql(_OF_NOW)


def downgrade() -> None:
    """Forget how windows were."""
    op.get_bind().exec_driver_sql(_FORMER, execution_options={"no_parameters": True})
