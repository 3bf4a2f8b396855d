"""Scripts of jobs are kept as they were submitted.

Revision ID: 0087
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import follow

revision = "0087"
down_revision = "0086"

_KEPT = """
    CREATE TABLE kept_scripts (
        digest TEXT NOT NULL,
        content TEXT NOT NULL,
        asked_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        CONSTRAINT kept_scripts_pkey PRIMARY KEY (digest),
        CONSTRAINT kept_scripts_digest_check CHECK (digest ~ '^[0-9a-f]{64}$'),
        CONSTRAINT kept_scripts_asked_at_check CHECK (
            asked_at >= TIMESTAMPTZ '1970-01-01 00:00:00+00' AND asked_at < TIMESTAMPTZ '3000-01-01 00:00:00+00')
    );
    COMMENT ON TABLE kept_scripts IS
        'scripts of jobs as they were submitted, each once; for their users and nobody else';
    COMMENT ON COLUMN kept_scripts.digest IS 'SHA-256 of the script in UTF-8';
    COMMENT ON COLUMN kept_scripts.content IS 'the script';
    COMMENT ON COLUMN kept_scripts.asked_at IS 'when a submission last had it';
    ALTER TABLE submissions ADD COLUMN script TEXT,
        ADD CONSTRAINT submissions_script_check CHECK (script ~ '^[0-9a-f]{64}$');
    COMMENT ON COLUMN submissions.script IS
        'digest of the script that the command begins with, as it was submitted; NULL: none is kept';
    CREATE INDEX submissions_script ON submissions (script) WHERE (script IS NOT NULL);
"""
_DROP = """
    ALTER TABLE submissions DROP COLUMN script;
    DROP TABLE kept_scripts;
"""


def upgrade() -> None:
    """Make the table, and let submissions name a script."""
    op.execute(_KEPT)
    follow(op.get_bind())


def downgrade() -> None:
    """Forget the scripts: jobs run them as they are then."""
    op.execute(_DROP)
    follow(op.get_bind())
