"""Only the accounting changes its sums and days; pauses fit into their job; numbers of events are such.

Revision ID: 0070
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0070"
down_revision = "0069"

_EVENTS = "grid_clusters_last_event_check"
# A pause that is longer than its job is none. Clocks of nodes may be minutes off.
_PAUSES = """
    UPDATE {schema}.jobs SET suspended_time = '0'
    WHERE suspended_time > interval '0'
      AND suspended_time > coalesce(ended_at, now()) - coalesce(started_at, now()) + interval '5 minutes'
"""
_SUMS_GROW = """
    CREATE OR REPLACE TRIGGER sums_grow BEFORE UPDATE ON accounting FOR EACH ROW
    WHEN (NEW.consumption < OLD.consumption
        OR (NEW.window_start, NEW.window_stop, NEW.user_name, NEW.project, NEW.queue_name, NEW.consumption_type)
            <> (OLD.window_start, OLD.window_stop, OLD.user_name, OLD.project, OLD.queue_name, OLD.consumption_type))
    EXECUTE FUNCTION sums_grow();
    COMMENT ON FUNCTION sums_grow IS 'let nothing be taken from the consumption of a window'
"""


def upgrade() -> None:
    """Mend what is wrong, and refuse it from now on."""
    op.execute("SELECT set_config('oarpy.rewrite_history', 'on', true)")
    for schema in ("public", "oar_past"):
        op.execute(_PAUSES.format(schema=schema))
    op.execute("SELECT set_config('oarpy.rewrite_history', '', true)")
    op.execute("UPDATE grid_clusters SET last_event = 0 WHERE last_event NOT BETWEEN 0 AND 4611686018427387904")
    op.create_check_constraint(op.f(_EVENTS), "grid_clusters", "last_event BETWEEN 0 AND 4611686018427387904")
    make(op.get_bind(), "functions", "sums_grow", "days_stay", "pause_fits")
    make(op.get_bind(), "views", "jobs", "efficiency")


def downgrade() -> None:
    """Allow it again. Views show no more than the older ones: negative hours are none."""
    for name in ("pause_fits", "pause_fits_new"):
        op.execute(f"DROP TRIGGER {name} ON jobs")
    op.execute("DROP FUNCTION pause_fits")
    op.execute("DROP TRIGGER days_stay ON job_days")
    op.execute("DROP FUNCTION days_stay")
    op.execute(_SUMS_GROW)
    op.drop_constraint(op.f(_EVENTS), "grid_clusters")
