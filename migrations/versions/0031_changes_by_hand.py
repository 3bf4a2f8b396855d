"""Changes made by hand count at once, and no move frees what still runs.

Revision ID: 0031
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, false, text

from oarpy.store.schema.statements import make

revision = "0031"
down_revision = "0030"

NEW = (
    "announced_empty",
    "holdings_kept",
    "job_on_nodes_stays",
    "jobs_emptied",
    "kills_withdrawn",
    "request_changed",
    "usage_changed",
)
CHANGED = ("announced", "capacities_changed", "forbidden_move", "jobs_moved")
NEW_TRIGGERS = {
    "job_dependencies": ("announced_new", "announced", "announced_gone"),
    "reserved_resources": ("announced_new", "announced", "announced_gone"),
    "assigned_resources": ("announced_new", "announced"),
    "assigned_amounts": ("announced_new", "announced"),
    "node_power": ("announced_new", "announced", "announced_gone"),
    "consumable_capacities": ("capacities_emptied",),
    "consumables": ("capacities_emptied",),
    "resources": ("platform_emptied",),
    "resource_properties": ("platform_emptied",),
}
"""By table: those of functions that were there before."""

OLDER = """
CREATE OR REPLACE FUNCTION forbidden_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM job_transitions WHERE from_state = OLD.state AND to_state = NEW.state)
       AND NOT EXISTS (SELECT FROM job_passages WHERE from_state = OLD.state AND to_state = NEW.state) THEN
        RAISE EXCEPTION 'job % cannot go from % to %', OLD.job_id, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', HINT = 'job_transitions lists the allowed moves';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION forbidden_move IS 'name the move when a change of state by hand is not allowed';

-- The condition is what the checks of the table refuse anyhow, so that no other change costs anything.
CREATE OR REPLACE TRIGGER forbidden_move BEFORE UPDATE OF state ON jobs FOR EACH ROW
    WHEN (NEW.state <> OLD.state AND (
        (NEW.state IN ('Terminated', 'Error')) <> (NEW.ended_at IS NOT NULL)
        OR (NEW.state IN ('toLaunch', 'Launching', 'Running', 'Suspended', 'Resuming', 'Finishing', 'Terminated')
            AND (NEW.moldable_id IS NULL OR NEW.walltime IS NULL))
        OR (NEW.state IN ('Running', 'Suspended', 'Resuming', 'Terminated') AND NEW.started_at IS NULL)
        OR (NEW.state IN ('Hold', 'Waiting', 'toAckReservation', 'toLaunch') AND NEW.started_at IS NOT NULL)
        OR (NEW.state = 'Finishing' AND NEW.final_state IS NULL)))
    EXECUTE FUNCTION forbidden_move();
CREATE OR REPLACE FUNCTION resources_returned() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM announce(ARRAY['resources returned']);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION resources_returned IS 'tell that a suspended job gave resources back, or has them again';

CREATE OR REPLACE TRIGGER resources_returned AFTER UPDATE OF suspended ON assigned_resources FOR EACH ROW
    WHEN (NEW.suspended <> OLD.suspended) EXECUTE FUNCTION resources_returned();
-- Most statements move jobs from one state to one other. So the function looks only for what concerns the states that
-- jobs left or came to.
CREATE OR REPLACE FUNCTION jobs_moved() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    move record;
    sources text[] := '{}';
    targets text[] := '{}';
    passing boolean := false;
    moment timestamptz := clock_timestamp();
    -- Plans are kept for as long as the connection. Those made for a few jobs compare every row with every other, those
    -- made for many read whole tables.
    many boolean := (SELECT count(*) > 64 FROM new_jobs);
BEGIN
    IF many THEN
        DISCARD PLANS;
    END IF;
    FOR move IN
        SELECT min(n.job_id) AS job, o.state AS source, n.state AS target
        FROM new_jobs n JOIN old_jobs o USING (job_id)
        WHERE n.state <> o.state GROUP BY 2, 3 ORDER BY 1
    LOOP
        sources := sources || move.source;
        targets := targets || move.target;
        IF NOT EXISTS (SELECT FROM job_transitions WHERE from_state = move.source AND to_state = move.target) THEN
            passing := true;
            IF NOT EXISTS (SELECT FROM job_passages WHERE from_state = move.source AND to_state = move.target) THEN
                RAISE EXCEPTION 'job % cannot go from % to %', move.job, move.source, move.target
                    USING ERRCODE = 'check_violation', HINT = 'job_transitions lists the allowed moves';
            END IF;
        END IF;
    END LOOP;
    IF targets = '{}' THEN
        -- a set difference: a join under EXISTS would compare every row with every other when it finds nothing
        IF EXISTS (SELECT job_id, queue_name, types, properties, project, moldable_id FROM new_jobs
                   WHERE state = 'Waiting'
                   EXCEPT SELECT job_id, queue_name, types, properties, project, moldable_id FROM old_jobs) THEN
            PERFORM announce(ARRAY['job changed']);
        END IF;
        IF many THEN
            DISCARD PLANS;
        END IF;
        RETURN NULL;
    END IF;
    UPDATE job_state_logs l
        SET during = tstzrange(lower(l.during), greatest(moment, lower(l.during)))
        FROM new_jobs n JOIN old_jobs o USING (job_id)
        WHERE n.state <> o.state AND l.job_id = n.job_id AND upper_inf(l.during)
          AND l.state NOT IN ('Terminated', 'Error');
    IF passing THEN
        INSERT INTO job_state_logs (job_id, state, previous_state, during)
            SELECT n.job_id, way.states[k + 1], way.states[k], tstzrange(
                moment + (k - 1) * interval '1 microsecond',
                CASE WHEN k < cardinality(way.states) - 1 THEN moment + k * interval '1 microsecond' END)
            FROM new_jobs n JOIN old_jobs o USING (job_id)
                LEFT JOIN job_passages p ON p.from_state = o.state AND p.to_state = n.state
                CROSS JOIN LATERAL (SELECT o.state || coalesce(p.through, '{}') || n.state AS states) way
                CROSS JOIN LATERAL generate_series(1, cardinality(way.states) - 1) AS k
            WHERE n.state <> o.state;
    ELSE
        INSERT INTO job_state_logs (job_id, state, previous_state, during)
            SELECT n.job_id, n.state, o.state, tstzrange(moment, NULL)
            FROM new_jobs n JOIN old_jobs o USING (job_id)
            WHERE n.state <> o.state;
    END IF;
    -- a job that is over, or waits again, holds nothing; what is over has no prediction and needs no killing
    IF targets && ARRAY['Terminated', 'Error'] THEN
        UPDATE assigned_resources a
            SET during = held_until(a.during, moment), suspended = false
            FROM new_jobs n
            WHERE n.state IN ('Terminated', 'Error') AND a.job_id = n.job_id AND (upper_inf(a.during) OR a.suspended);
        UPDATE kill_requests k SET state = 'done'
            FROM new_jobs n WHERE n.state IN ('Terminated', 'Error') AND k.job_id = n.job_id AND k.state <> 'done';
    END IF;
    IF 'Waiting' = ANY (targets) THEN
        DELETE FROM assigned_resources a USING new_jobs n
            WHERE n.state = 'Waiting' AND a.job_id = n.job_id AND upper_inf(a.during);
    END IF;
    IF sources && ARRAY['Hold', 'Waiting', 'toAckReservation'] THEN
        DELETE FROM reserved_resources r USING new_jobs n
            WHERE n.state NOT IN ('Hold', 'Waiting', 'toAckReservation') AND r.job_id = n.job_id;
        DELETE FROM gantt_predictions g USING new_jobs n JOIN old_jobs o USING (job_id)
            WHERE n.state NOT IN ('Hold', 'Waiting', 'toAckReservation') AND n.state <> o.state
              AND g.job_id = n.job_id;
    END IF;
    PERFORM announce(array_agg(DISTINCT 'job ' || target)) FROM unnest(targets) AS target;
    IF many THEN
        DISCARD PLANS;
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER jobs_moved AFTER UPDATE ON jobs
    REFERENCING OLD TABLE AS old_jobs NEW TABLE AS new_jobs FOR EACH STATEMENT EXECUTE FUNCTION jobs_moved();
"""


def upgrade() -> None:
    """Add the columns, and the triggers that announce and refuse."""
    op.add_column(
        "jobs",
        Column(
            "left_nothing",
            Boolean,
            nullable=False,
            server_default=false(),
            comment="nothing of it is left on its nodes: said by the statement that ends it, once it was launched",
        ),
    )
    op.add_column(
        "site",
        Column(
            "usage_version",
            BigInteger,
            nullable=False,
            server_default=text("0"),
            comment="changes whenever anybody but the module that counts changes past consumption",
        ),
    )
    op.create_check_constraint("site_usage_version_check", "site", "usage_version BETWEEN 0 AND 9007199254740992")
    op.execute("DROP FUNCTION IF EXISTS resources_returned CASCADE")
    make(op.get_bind(), "functions", *NEW, *CHANGED)


def downgrade() -> None:
    """Take them away."""
    for name in NEW:
        op.execute(f"DROP FUNCTION {name} CASCADE")
    for table, names in NEW_TRIGGERS.items():
        for name in names:
            op.execute(f"DROP TRIGGER {name} ON {table}")
    op.get_bind().exec_driver_sql(OLDER, execution_options={"no_parameters": True})
    op.drop_column("jobs", "left_nothing")
    op.drop_column("site", "usage_version")
