"""Modules lead by locks whose numbers the server alone knows how to change.

Revision ID: 0071
"""

from __future__ import annotations

from alembic import op

revision = "0071"
down_revision = "0070"

_TABLE = """
CREATE TABLE leads (
    module TEXT NOT NULL,
    lock BIGINT NOT NULL,
    CONSTRAINT leads_pkey PRIMARY KEY (module)
);
COMMENT ON TABLE leads IS 'what the instance of a module that leads has locked';
COMMENT ON COLUMN leads.module IS 'name of the module';
COMMENT ON COLUMN leads.lock IS 'number of its advisory lock; another one once a stranger holds it'
"""


def upgrade() -> None:
    """Keep the numbers."""
    op.execute(_TABLE)


def downgrade() -> None:
    """Forget them: older modules have numbers that everybody knows."""
    op.execute("DROP TABLE leads")
