"""A best-effort job is signalled some time before it is killed, so that it can write a checkpoint.

Revision ID: 0004
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"


_MOVED = """
CREATE OR REPLACE FUNCTION kills_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM new_kills WHERE state = 'decided') THEN
        PERFORM announce(ARRAY['kill decided']);
    END IF;{more}
    RETURN NULL;
END $$
"""
_ASKED_AGAIN = """
    IF EXISTS (SELECT FROM new_kills WHERE state = 'asked' AND not_before IS NULL) THEN
        PERFORM announce(ARRAY['kill requested']);
    END IF;"""


def upgrade() -> None:
    """Let a request wait for its time, and announce one that is made anew."""
    op.execute("ALTER TABLE kill_requests ADD COLUMN not_before timestamptz")
    op.execute(
        "COMMENT ON COLUMN kill_requests.not_before IS"
        " 'when the checkpoint that the job was asked for should be written; NULL: kill at once'"
    )
    op.execute(_MOVED.format(more=_ASKED_AGAIN))


def downgrade() -> None:
    """Requests that wait are carried out at once."""
    op.execute(_MOVED.format(more=""))
    op.execute("ALTER TABLE kill_requests DROP COLUMN not_before")
