"""Projects say to which others their jobs give way, and how.

Revision ID: 0115
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0115"
down_revision = "0114"

_COLUMNS = """
ALTER TABLE projects
    ADD COLUMN gives_way_to TEXT[] DEFAULT '{}' NOT NULL
        CONSTRAINT projects_gives_way_to_check
        CHECK ((gives_way_to = '{}')
            OR ((array_ndims(gives_way_to) = 1) AND (array_position(gives_way_to, NULL) IS NULL))),
    ADD CONSTRAINT projects_give_way_to_others CHECK (NOT project = ANY (gives_way_to)),
    ADD COLUMN manner TEXT DEFAULT 'end' NOT NULL
        CONSTRAINT projects_manner_check CHECK (manner IN ('end', 'requeue', 'suspend')),
    ADD COLUMN grace INTEGER DEFAULT 0 NOT NULL CONSTRAINT projects_grace_check CHECK (grace BETWEEN 0 AND 86400),
    ADD COLUMN grace_signal SMALLINT DEFAULT 15 NOT NULL
        CONSTRAINT projects_grace_signal_check CHECK (grace_signal BETWEEN 1 AND 64);
COMMENT ON COLUMN projects.gives_way_to IS
    'projects whose jobs may take the resources of its jobs and of those below it, as jobs of higher levels may';
COMMENT ON COLUMN projects.manner IS
    'how these give way: end; requeue, submitted again; suspend, until their resources are free again';
COMMENT ON COLUMN projects.grace IS 'seconds that they have between the signal and their end';
COMMENT ON COLUMN projects.grace_signal IS 'signal that they get then';
"""
_FORMER = """
CREATE OR REPLACE FUNCTION time_to_leave(job jobs) RETURNS interval LANGUAGE sql STABLE AS $$
    SELECT greatest(job.checkpoint, coalesce((
        SELECT q.grace * interval '1 second' FROM queues q
        WHERE q.queue_name = job.queue_name AND q.gives_way_to <> '{}' AND q.manner <> 'suspend'
          AND NOT 'besteffort' = ANY (job.types)), interval '0'))
$$;
DROP FUNCTION giving_way(jobs);
ALTER TABLE projects DROP COLUMN gives_way_to, DROP COLUMN manner, DROP COLUMN grace, DROP COLUMN grace_signal;
"""


def upgrade() -> None:
    """Have no project give way."""
    op.get_bind().exec_driver_sql(_COLUMNS, execution_options={"no_parameters": True})
    make(op.get_bind(), "functions", "giving_way", "time_to_leave")


def downgrade() -> None:
    """Forget which projects give way: queues and best-effort jobs alone do."""
    op.get_bind().exec_driver_sql(_FORMER, execution_options={"no_parameters": True})
