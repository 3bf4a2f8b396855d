"""Bags over clusters have profiles.

Revision ID: 0110
"""

from __future__ import annotations

from alembic import op

revision = "0110"
down_revision = "0109"

_COLUMNS = """
ALTER TABLE bags ADD COLUMN profile JSONB;
COMMENT ON COLUMN bags.profile IS 'seconds of a task by type of nodes, as its broker told; NULL: none did';
ALTER TABLE bag_profiles ALTER COLUMN bag_id DROP NOT NULL;
ALTER TABLE bag_profiles ADD COLUMN broker TEXT DEFAULT '' NOT NULL, ADD COLUMN profile TEXT DEFAULT '' NOT NULL;
ALTER TABLE bag_profiles ADD CONSTRAINT bag_profiles_for_a_bag CHECK ((bag_id IS NULL) = (broker <> ''));
CREATE INDEX bag_profiles_broker ON bag_profiles (broker, profile) WHERE broker <> '';
COMMENT ON COLUMN bag_profiles.broker IS 'the broker that asked for it, before its bag is here; empty: none';
COMMENT ON COLUMN bag_profiles.profile IS 'the broker''s name for it';
ALTER TABLE grid_bags ADD COLUMN profile TEXT DEFAULT '' NOT NULL, ADD COLUMN profiled JSONB;
COMMENT ON COLUMN grid_bags.profile IS 'script by which clusters tell the seconds of a task; empty: none';
COMMENT ON COLUMN grid_bags.profiled IS
    'these by cluster and type of nodes, and why some are not known';
"""


def upgrade() -> None:
    """Make the columns."""
    op.execute(_COLUMNS)


def downgrade() -> None:
    """Drop them: bags over clusters are expected to be done by the walltimes of their tasks."""
    op.execute("""
        DELETE FROM bag_profiles WHERE bag_id IS NULL;
        ALTER TABLE bag_profiles DROP COLUMN broker, DROP COLUMN profile;
        ALTER TABLE bag_profiles ALTER COLUMN bag_id SET NOT NULL;
        ALTER TABLE bags DROP COLUMN profile;
        ALTER TABLE grid_bags DROP COLUMN profile, DROP COLUMN profiled;
    """)
