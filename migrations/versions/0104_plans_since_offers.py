"""Plans that clusters made since they made offers: their brokers hear of these.

Revision ID: 0104
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0104"
down_revision = "0103"

_TABLES = """
CREATE TABLE door_offers (
    broker TEXT NOT NULL CONSTRAINT door_offers_broker_check CHECK (broker ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$'),
    plan BIGINT NOT NULL,
    until TIMESTAMP WITH TIME ZONE NOT NULL
        CONSTRAINT door_offers_until_check
        CHECK ((until >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
            AND (until < TIMESTAMPTZ '3000-01-01 00:00:00+00')),
    told_at TIMESTAMP WITH TIME ZONE
        CONSTRAINT door_offers_told_at_check
        CHECK ((told_at >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
            AND (told_at < TIMESTAMPTZ '3000-01-01 00:00:00+00')),
    CONSTRAINT door_offers_pkey PRIMARY KEY (broker)
);
COMMENT ON TABLE door_offers IS 'brokers that got offers lately, and hear of newer plans';
COMMENT ON COLUMN door_offers.broker IS 'name of the broker';
COMMENT ON COLUMN door_offers.plan IS 'number of the plan that the broker knows';
COMMENT ON COLUMN door_offers.until IS 'until when its offers hold';
COMMENT ON COLUMN door_offers.told_at IS 'when it was last told of a newer plan; NULL: never';
ALTER TABLE door_events ADD COLUMN plan BIGINT;
COMMENT ON COLUMN door_events.plan IS 'number of the plan that was made since offers were';
ALTER TABLE door_events ALTER COLUMN job_id DROP NOT NULL;
ALTER TABLE grid_clusters ADD COLUMN plan BIGINT DEFAULT 0 NOT NULL;
COMMENT ON COLUMN grid_clusters.plan IS 'number of its plan, as it told last while offers were open';
"""
_LATER = """
ALTER TABLE door_events
    ADD CONSTRAINT door_events_of_part CHECK ((kind = 'changed') = (job_id IS NULL)),
    ADD CONSTRAINT door_events_of_plan CHECK ((kind = 'changed') = (plan IS NOT NULL));
"""
_KINDS = """
ALTER TABLE door_events DROP CONSTRAINT door_events_kind_check,
    ADD CONSTRAINT door_events_kind_check CHECK (kind IN ({events}));
COMMENT ON COLUMN door_events.part IS 'the part{of_plan}';
COMMENT ON COLUMN door_events.job_id IS 'its job{no_job}';
"""
_EVENTS = "'started', 'ended', 'failed', 'lost', 'evicted', 'lapsed', 'idle', 'task', 'completion'"
_NOTICED = """
CREATE OR REPLACE FUNCTION grid_bag_noticed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM announce(ARRAY['grid bag changed']);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION grid_bag_noticed IS 'tell the broker that something of a bag has changed';
"""


def upgrade() -> None:
    """Make room for what is told of plans, and have the watcher told of bags."""
    op.execute(_TABLES)
    op.execute(_KINDS.format(events=f"{_EVENTS}, 'changed'", of_plan="; empty of a plan", no_job="; NULL of a plan"))
    op.execute(_LATER)
    make(op.get_bind(), "functions", "grid_bag_noticed")


def downgrade() -> None:
    """Take all of it back: what was told of plans is forgotten."""
    op.execute("DROP TRIGGER grid_bag_asked ON grid_bags")
    op.execute(_NOTICED)
    op.execute("DELETE FROM door_events WHERE kind = 'changed'")
    op.execute(
        """
        ALTER TABLE door_events DROP CONSTRAINT door_events_of_part, DROP CONSTRAINT door_events_of_plan,
            DROP COLUMN plan, ALTER COLUMN job_id SET NOT NULL;
        ALTER TABLE grid_clusters DROP COLUMN plan;
        DROP TABLE door_offers
        """
    )
    op.execute(_KINDS.format(events=_EVENTS, of_plan="", no_job=""))
