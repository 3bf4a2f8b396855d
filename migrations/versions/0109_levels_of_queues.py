"""Queues say to which others their jobs give way, and how.

Revision ID: 0109
"""

from __future__ import annotations

from alembic import op

revision = "0109"
down_revision = "0108"

_COLUMNS = """
ALTER TABLE queues
    ADD COLUMN gives_way_to TEXT[] DEFAULT '{}' NOT NULL
        CONSTRAINT queues_gives_way_to_check
        CHECK ((gives_way_to = '{}')
            OR ((array_ndims(gives_way_to) = 1) AND (array_position(gives_way_to, NULL) IS NULL))),
    ADD CONSTRAINT queues_give_way_to_others CHECK (NOT queue_name = ANY (gives_way_to)),
    ADD COLUMN manner TEXT DEFAULT 'end' NOT NULL
        CONSTRAINT queues_manner_check CHECK (manner IN ('end', 'requeue', 'suspend')),
    ADD COLUMN grace INTEGER DEFAULT 0 NOT NULL CONSTRAINT queues_grace_check CHECK (grace BETWEEN 0 AND 86400),
    ADD COLUMN grace_signal SMALLINT DEFAULT 15 NOT NULL
        CONSTRAINT queues_grace_signal_check CHECK (grace_signal BETWEEN 1 AND 64);
COMMENT ON COLUMN queues.gives_way_to IS
    'queues whose jobs may take the resources of its jobs, as jobs of higher levels may';
COMMENT ON COLUMN queues.manner IS
    'how its jobs give way: end; requeue, submitted again; suspend, until their resources are free again';
COMMENT ON COLUMN queues.grace IS 'seconds that its jobs have between the signal and their end';
COMMENT ON COLUMN queues.grace_signal IS 'signal that they get then';
CREATE OR REPLACE FUNCTION time_to_leave(job jobs) RETURNS interval LANGUAGE sql STABLE AS $$
    SELECT greatest(job.checkpoint, coalesce((
        SELECT q.grace * interval '1 second' FROM queues q
        WHERE q.queue_name = job.queue_name AND q.gives_way_to <> '{}' AND q.manner <> 'suspend'
          AND NOT 'besteffort' = ANY (job.types)), interval '0'))
$$;
"""
_FORMER = """
DROP FUNCTION time_to_leave(jobs);
ALTER TABLE queues DROP COLUMN gives_way_to, DROP COLUMN manner, DROP COLUMN grace, DROP COLUMN grace_signal;
"""


def upgrade() -> None:
    """Have no queue give way."""
    op.get_bind().exec_driver_sql(_COLUMNS, execution_options={"no_parameters": True})


def downgrade() -> None:
    """Forget who gives way: best-effort jobs alone do."""
    op.get_bind().exec_driver_sql(_FORMER)
