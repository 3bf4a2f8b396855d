"""No live job has a past of what it held, none waits again that has started, and none that runs has left nothing.

Revision ID: 0036
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0036"
down_revision = "0035"

_CHECKS = {
    "waits_again_unstarted": "(state <> 'Finishing') OR (final_state <> 'Waiting') OR (started_at IS NULL)",
    "left_nothing_when_off_nodes": "(NOT left_nothing) OR"
    " (state NOT IN ('Launching', 'Running', 'Suspended', 'Resuming', 'Finishing'))",
}

_MENDED = (
    "SET LOCAL oarpy.rewrite_history = on",
    "UPDATE jobs SET final_state = 'Error'"
    " WHERE state = 'Finishing' AND final_state = 'Waiting' AND started_at IS NOT NULL",
    "UPDATE jobs SET left_nothing = false"
    " WHERE left_nothing AND state IN ('Launching', 'Running', 'Suspended', 'Resuming', 'Finishing')",
    "DELETE FROM assigned_resources a USING jobs j"
    " WHERE j.job_id = a.job_id AND j.state IN ('Hold', 'Waiting', 'toAckReservation', 'toLaunch')"
    " AND NOT upper_inf(a.during)",
    "UPDATE assigned_resources a SET suspended = false FROM jobs j"
    " WHERE j.job_id = a.job_id AND a.suspended AND j.state NOT IN ('Suspended', 'Resuming', 'Finishing')",
    "SET LOCAL oarpy.rewrite_history = off",
)

_TRIGGERS_BEFORE = (
    "DROP TRIGGER emptied ON jobs",
    "DROP TRIGGER emptied ON submissions",
    "CREATE TRIGGER jobs_emptied BEFORE TRUNCATE ON jobs FOR EACH STATEMENT EXECUTE FUNCTION jobs_emptied()",
    "CREATE TRIGGER holdings_kept AFTER DELETE ON assigned_resources REFERENCING OLD TABLE AS gone"
    " FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION holdings_kept()",
    "COMMENT ON FUNCTION holdings_kept IS 'let nobody take from a job what it holds'",
    "DROP FUNCTION holding_begins CASCADE",
)


def upgrade() -> None:
    """Mend what is wrong, then refuse it."""
    for statement in _MENDED:
        op.execute(statement)
    for name, condition in _CHECKS.items():
        op.create_check_constraint(op.f(name), "jobs", condition)
    op.execute("DROP TRIGGER IF EXISTS jobs_emptied ON jobs")
    op.execute("DROP TRIGGER IF EXISTS holdings_kept ON assigned_resources")
    make(op.get_bind(), "functions", "holding_begins", "holdings_kept", "jobs_emptied")


def downgrade() -> None:
    """Take it back."""
    for statement in _TRIGGERS_BEFORE:
        op.execute(statement)
    for name in _CHECKS:
        op.drop_constraint(op.f(name), "jobs")
