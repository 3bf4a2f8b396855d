"""Bags have profiles: how long a task takes on a type of nodes.

Revision ID: 0100
"""

from __future__ import annotations

from alembic import op

revision = "0100"
down_revision = "0099"

_PROFILES = """
CREATE TABLE bag_profiles (
    job_id BIGINT NOT NULL,
    bag_id BIGINT NOT NULL,
    node_type TEXT NOT NULL CONSTRAINT bag_profiles_node_type_check CHECK (node_type <> ''),
    seconds DOUBLE PRECISION CONSTRAINT bag_profiles_seconds_check
        CHECK ((seconds > 0) AND (seconds BETWEEN -9007199254740992 AND 9007199254740992)),
    failure TEXT DEFAULT '' NOT NULL,
    CONSTRAINT bag_profiles_pkey PRIMARY KEY (job_id),
    CONSTRAINT bag_profiles_bag_id_fkey FOREIGN KEY (bag_id) REFERENCES bags (bag_id) ON DELETE CASCADE
);
CREATE INDEX bag_profiles_bag ON bag_profiles (bag_id);
COMMENT ON TABLE bag_profiles IS
    'profiles of bags: how long a task takes on a type of nodes, as a job tells before the promise is made';
COMMENT ON COLUMN bag_profiles.job_id IS 'the job that takes it';
COMMENT ON COLUMN bag_profiles.bag_id IS 'the bag';
COMMENT ON COLUMN bag_profiles.node_type IS 'type of its node: value of scheduler.node_type';
COMMENT ON COLUMN bag_profiles.seconds IS 'how long a task takes there; NULL: not told';
COMMENT ON COLUMN bag_profiles.failure IS 'why it was not told, as far as the job said so';
"""


def upgrade() -> None:
    """Make the table."""
    op.execute(_PROFILES)


def downgrade() -> None:
    """Drop it; bags are expected to be done by the walltimes of their tasks."""
    op.execute("DROP TABLE bag_profiles")
