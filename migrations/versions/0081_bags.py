"""Bags of tasks have a promise, and every change of it is kept.

Revision ID: 0081
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0081"
down_revision = "0080"

_INSTANT = """{1} TIMESTAMPTZ{2} CONSTRAINT {0}_{1}_check CHECK (({1} >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
        AND ({1} < TIMESTAMPTZ '3000-01-01 00:00:00+00'))"""


def _instant(table: str, column: str, rule: str = "") -> str:
    return _INSTANT.format(table, column, f" {rule}" if rule else "")


_BAGS = f"""
CREATE TABLE bags (
    bag_id BIGINT NOT NULL,
    user_name TEXT NOT NULL CONSTRAINT bags_user_name_check CHECK (user_name <> ''),
    tasks INTEGER NOT NULL CONSTRAINT bags_tasks_check CHECK (tasks > 0),
    {_instant("bags", "deadline")},
    strict BOOLEAN DEFAULT false NOT NULL,
    {_instant("bags", "submitted_at", "DEFAULT now() NOT NULL")},
    {_instant("bags", "promise")},
    {_instant("bags", "expected")},
    {_instant("bags", "ended")},
    CONSTRAINT bags_pkey PRIMARY KEY (bag_id)
);
CREATE INDEX bags_live ON bags (bag_id) WHERE ended IS NULL;
COMMENT ON TABLE bags IS
    'bags of equal tasks, each an array of jobs of type bag; by when all of them are done is promised';
COMMENT ON COLUMN bags.bag_id IS 'number of the bag: that of its first job, which names the array';
COMMENT ON COLUMN bags.user_name IS 'who submitted it';
COMMENT ON COLUMN bags.tasks IS 'how many tasks it has';
COMMENT ON COLUMN bags.deadline IS 'by when its user wants it to be done; NULL: as soon as can be';
COMMENT ON COLUMN bags.strict IS 'it is refused if the deadline cannot be met';
COMMENT ON COLUMN bags.submitted_at IS 'when it was submitted';
COMMENT ON COLUMN bags.promise IS 'by when all its tasks are done; NULL: it was not answered';
COMMENT ON COLUMN bags.expected IS 'when all its tasks are done as planned now';
COMMENT ON COLUMN bags.ended IS 'when its last task ended, or it was refused; NULL: it goes on';
"""

_CHANGES = f"""
CREATE TABLE bag_changes (
    change_id BIGINT GENERATED ALWAYS AS IDENTITY,
    bag_id BIGINT NOT NULL,
    {_instant("bag_changes", "at", "DEFAULT clock_timestamp() NOT NULL")},
    kind TEXT NOT NULL CONSTRAINT bag_changes_kind_check
        CHECK (kind IN ('PROMISED', 'REFUSED', 'IMPROVED', 'BROKEN', 'EXPECTED', 'END')),
    {_instant("bag_changes", "promise")},
    {_instant("bag_changes", "expected")},
    cause TEXT DEFAULT '' NOT NULL,
    CONSTRAINT bag_changes_pkey PRIMARY KEY (change_id),
    CONSTRAINT bag_changes_bag_id_fkey FOREIGN KEY (bag_id) REFERENCES bags (bag_id) ON DELETE CASCADE
);
CREATE INDEX bag_changes_bag ON bag_changes (bag_id, change_id);
COMMENT ON TABLE bag_changes IS 'what became of the promises of bags, and why';
COMMENT ON COLUMN bag_changes.change_id IS 'number of the change';
COMMENT ON COLUMN bag_changes.bag_id IS 'the bag';
COMMENT ON COLUMN bag_changes.at IS 'when';
COMMENT ON COLUMN bag_changes.kind IS
    'PROMISED, REFUSED; IMPROVED or BROKEN: the promise changed; EXPECTED: the plan alone did; END';
COMMENT ON COLUMN bag_changes.promise IS 'the promise from then on; of a refused one when it could be had';
COMMENT ON COLUMN bag_changes.expected IS 'the end as planned then';
COMMENT ON COLUMN bag_changes.cause IS 'why';
"""


def upgrade() -> None:
    """Make the tables, and announce changes by hand."""
    op.execute(_BAGS)
    op.execute(_CHANGES)
    make(op.get_bind(), "functions", "bag_changed")


def downgrade() -> None:
    """Drop them; the tasks stay, as reservations."""
    op.execute("DROP TABLE bag_changes, bags; DROP FUNCTION bag_changed")
