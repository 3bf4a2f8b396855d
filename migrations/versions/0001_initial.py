"""The first schema: states, queues, rules, nodes, resources, jobs, assignments, predictions, accounting.

Revision ID: 0001
"""

from __future__ import annotations

from alembic import op
from oarpy.migrations.statements import run_file
from sqlalchemy import text

from oarpy.model.states import FINAL_STATES, HOLDING_STATES, TRANSITIONS, JobState

revision = "0001"
down_revision = None

_TABLES = (
    "module_runs",
    "accounting",
    "event_logs",
    "signal_requests",
    "kill_requests",
    "scheduling_passes",
    "gantt_predictions",
    "reserved_resources",
    "assigned_resources",
    "job_state_logs",
    "job_dependencies",
    "jobs",
    "resource_descriptions",
    "resource_groups",
    "moldable_descriptions",
    "submissions",
    "resource_state_logs",
    "resources",
    "resource_properties",
    "nodes",
    "quotas",
    "admission_rule_versions",
    "admission_rules",
    "queues",
    "resource_states",
    "job_transitions",
    "job_states",
    "site",
)
_FUNCTIONS = (
    "jobs_inserted",
    "jobs_moved",
    "final_jobs_stay",
    "kills_moved",
    "node_of_resource",
    "resource_state_logged",
    "platform_changed",
    "announced",
    "rule_numbered",
    "rule_versioned",
    "announce",
)


def upgrade() -> None:
    """Create everything, with the states and moves of ``oarpy.model.states`` as rows."""
    connection = op.get_bind()
    run_file(__file__)
    run_file(__file__, "_comments")
    connection.execute(
        text("INSERT INTO job_states VALUES (:state, :letter, :final, :holding)"),
        [
            {
                "state": state.value,
                "letter": state.letter,
                "final": state in FINAL_STATES,
                "holding": state in HOLDING_STATES,
            }
            for state in JobState
        ],
    )
    connection.execute(
        text("INSERT INTO job_transitions VALUES (:source, :target, :event, :who)"),
        [
            {"source": move.source.value, "target": move.target.value, "event": move.event, "who": move.who}
            for move in TRANSITIONS
        ],
    )


def downgrade() -> None:
    """Destroy everything. The extension stays: it may have been there before."""
    connection = op.get_bind()
    for table in _TABLES:
        connection.exec_driver_sql(f"DROP TABLE {table}")
    for function in _FUNCTIONS:
        connection.exec_driver_sql(f"DROP FUNCTION {function}")
