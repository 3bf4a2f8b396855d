"""Jobs of the past stay as they are, as do amounts, grants, lost jobs, generations and the log of absent nodes.

Revision ID: 0035
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import follow, make

revision = "0035"
down_revision = "0034"

_TRIGGERS = (
    "history_stays ON assigned_amounts",
    "amounts_stay ON assigned_amounts",
    "history_stays ON generations",
    "history_stays ON past_months",
    "history_stays ON node_away_logs",
    "history_stays ON lost_jobs",
    "lost_ends_stay ON lost_jobs",
    "history_stays ON walltime_changes",
)


def upgrade() -> None:
    """Create the triggers, those of the past with the schema that follows."""
    make(op.get_bind(), "functions", "ended_jobs_stay", "grants_stay", "history_stays")
    follow(op.get_bind())


def downgrade() -> None:
    """Take back what the code of before does not know. Tables of the past keep their triggers, which it passes."""
    for trigger in _TRIGGERS:
        op.execute(f"DROP TRIGGER {trigger}")
    op.execute("DROP FUNCTION grants_stay CASCADE")
