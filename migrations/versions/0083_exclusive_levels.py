"""A block of an exclusive level, such as a GPU, is held by one job that asks for the level at a time.

Revision ID: 0083
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0083"
down_revision = "0082"

_TABLES = """
    CREATE TABLE exclusive_levels (
        level TEXT NOT NULL,
        property TEXT NOT NULL,
        CONSTRAINT exclusive_levels_pkey PRIMARY KEY (level)
    );
    COMMENT ON TABLE exclusive_levels IS
        'levels of which a block goes to one job that asks for them at a time: the metascheduler writes its settings';
    COMMENT ON COLUMN exclusive_levels.level IS 'the level, as requests name it';
    COMMENT ON COLUMN exclusive_levels.property IS 'the property whose values are its blocks';
    CREATE TABLE held_blocks (
        job_id BIGINT NOT NULL,
        property TEXT NOT NULL,
        block TEXT NOT NULL,
        exclusive BOOLEAN DEFAULT true NOT NULL,
        guest BOOLEAN DEFAULT false NOT NULL,
        suspended BOOLEAN DEFAULT false NOT NULL,
        CONSTRAINT held_blocks_pkey PRIMARY KEY (job_id, property, block),
        CONSTRAINT one_holder_of_a_block EXCLUDE USING gist (property WITH =, block WITH =, (CASE
    WHEN NOT exclusive THEN int8range(job_id, job_id, '[]')
    WHEN guest THEN int8range(0, 0, '[]')
    ELSE int8range(0, NULL) END) WITH &&) WHERE (NOT suspended),
        CONSTRAINT held_blocks_job_id_fkey FOREIGN KEY (job_id) REFERENCES jobs (job_id) ON DELETE CASCADE
    );
    COMMENT ON TABLE held_blocks IS
        'blocks of exclusive levels that live jobs hold; triggers write them as resources are assigned and given back';
    COMMENT ON COLUMN held_blocks.job_id IS 'the job';
    COMMENT ON COLUMN held_blocks.property IS 'the property whose values are the blocks';
    COMMENT ON COLUMN held_blocks.block IS 'the value';
    COMMENT ON COLUMN held_blocks.exclusive IS 'whether nobody else may hold it, but guests of those who share';
    COMMENT ON COLUMN held_blocks.guest IS 'whether it may be beside holders that share';
    COMMENT ON COLUMN held_blocks.suspended IS 'given back while the job is suspended: others may hold it';
"""

_DROP = """
    DROP TRIGGER exclusive_blocks_stay ON resources;
    DROP FUNCTION exclusive_blocks_stay();
    DROP TRIGGER blocks_taken ON assigned_resources;
    DROP TRIGGER blocks_changed ON assigned_resources;
    DROP TRIGGER blocks_returned ON assigned_resources;
    DROP FUNCTION blocks_held();
    DROP FUNCTION hold_blocks(bigint[]);
    DROP TABLE held_blocks;
    DROP TABLE exclusive_levels;
"""


def upgrade() -> None:
    """Make the tables, and what fills them."""
    op.execute(_TABLES)
    make(op.get_bind(), "functions", "hold_blocks", "blocks_held", "exclusive_blocks_stay")


def downgrade() -> None:
    """Take them back."""
    op.execute(_DROP)
