"""Bags of tasks over clusters: by when they are done, what each cluster promised, and what became of their tasks.

Revision ID: 0093
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0093"
down_revision = "0092"

_TABLES = """
CREATE TABLE grid_bags (
    job BIGINT NOT NULL,
    tasks INTEGER NOT NULL CONSTRAINT grid_bags_tasks_check CHECK (tasks > 0),
    deadline TIMESTAMP WITH TIME ZONE
        CONSTRAINT grid_bags_deadline_check
        CHECK ((deadline >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
            AND (deadline < TIMESTAMPTZ '3000-01-01 00:00:00+00')),
    strict BOOLEAN DEFAULT false NOT NULL,
    policy TEXT NOT NULL
        CONSTRAINT grid_bags_policy_check CHECK (policy IN ('plb', 'dplb', 'dplbv2', 'nolb', 'slots')),
    used_policy TEXT DEFAULT '' NOT NULL,
    rounds INTEGER DEFAULT 0 NOT NULL CONSTRAINT grid_bags_rounds_check CHECK (rounds >= 0),
    told JSONB DEFAULT '{}' NOT NULL,
    promise TIMESTAMP WITH TIME ZONE
        CONSTRAINT grid_bags_promise_check
        CHECK ((promise >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
            AND (promise < TIMESTAMPTZ '3000-01-01 00:00:00+00')),
    expected TIMESTAMP WITH TIME ZONE
        CONSTRAINT grid_bags_expected_check
        CHECK ((expected >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
            AND (expected < TIMESTAMPTZ '3000-01-01 00:00:00+00')),
    version INTEGER DEFAULT 0 NOT NULL CONSTRAINT grid_bags_version_check CHECK (version >= 0),
    CONSTRAINT grid_bags_pkey PRIMARY KEY (job),
    CONSTRAINT grid_bags_job_fkey FOREIGN KEY(job) REFERENCES grid_jobs (id) ON DELETE CASCADE
);
COMMENT ON TABLE grid_bags IS 'what jobs of kind bag ask for, and by when they are done';
COMMENT ON COLUMN grid_bags.job IS 'the job';
COMMENT ON COLUMN grid_bags.tasks IS 'how many tasks it has, over all clusters';
COMMENT ON COLUMN grid_bags.deadline IS 'by when its user wants it to be done; NULL: as soon as can be';
COMMENT ON COLUMN grid_bags.strict IS 'it is refused if the deadline cannot be met';
COMMENT ON COLUMN grid_bags.policy IS 'by what its tasks are shared out';
COMMENT ON COLUMN grid_bags.used_policy IS 'by what they were, as clusters told enough for it; empty: not yet';
COMMENT ON COLUMN grid_bags.rounds IS 'how often offers were worse when they were taken';
COMMENT ON COLUMN grid_bags.told IS 'by cluster what it offered last, or why it was left out';
COMMENT ON COLUMN grid_bags.promise IS 'by when all its tasks are done; NULL: not every cluster has answered';
COMMENT ON COLUMN grid_bags.expected IS 'when its last task is done as clusters plan now';
COMMENT ON COLUMN grid_bags.version IS 'how often that changed';
CREATE TABLE grid_bag_parts (
    part TEXT NOT NULL,
    job BIGINT NOT NULL,
    promised TIMESTAMP WITH TIME ZONE
        CONSTRAINT grid_bag_parts_promised_check
        CHECK ((promised >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
            AND (promised < TIMESTAMPTZ '3000-01-01 00:00:00+00')),
    completion TIMESTAMP WITH TIME ZONE
        CONSTRAINT grid_bag_parts_completion_check
        CHECK ((completion >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
            AND (completion < TIMESTAMPTZ '3000-01-01 00:00:00+00')),
    told INTEGER DEFAULT 0 NOT NULL CONSTRAINT grid_bag_parts_told_check CHECK (told >= 0),
    CONSTRAINT grid_bag_parts_pkey PRIMARY KEY (part),
    CONSTRAINT grid_bag_parts_part_fkey FOREIGN KEY(part) REFERENCES grid_parts (name) ON DELETE CASCADE,
    CONSTRAINT grid_bag_parts_job_fkey FOREIGN KEY(job) REFERENCES grid_jobs (id) ON DELETE CASCADE
);
CREATE INDEX grid_bag_parts_job ON grid_bag_parts (job);
COMMENT ON TABLE grid_bag_parts IS 'what clusters promised of bags, and what became of that';
COMMENT ON COLUMN grid_bag_parts.part IS 'the part';
COMMENT ON COLUMN grid_bag_parts.job IS 'the job';
COMMENT ON COLUMN grid_bag_parts.promised IS 'by when its tasks are done, as the cluster promised';
COMMENT ON COLUMN grid_bag_parts.completion IS 'when its last task is done there as planned now; NULL: not told';
COMMENT ON COLUMN grid_bag_parts.told IS 'version of the whole completion that its cluster knows';
CREATE TABLE grid_bag_tasks (
    part TEXT NOT NULL,
    task INTEGER NOT NULL CONSTRAINT grid_bag_tasks_task_check CHECK (task > 0),
    job BIGINT NOT NULL,
    state TEXT DEFAULT 'Asked' NOT NULL
        CONSTRAINT grid_bag_tasks_state_check
        CHECK (state IN ('Asked', 'Live', 'Over', 'Failed', 'Lost', 'Gone')),
    exit_status INTEGER,
    message TEXT DEFAULT '' NOT NULL,
    CONSTRAINT grid_bag_tasks_pkey PRIMARY KEY (part, task),
    CONSTRAINT grid_bag_tasks_part_fkey FOREIGN KEY(part) REFERENCES grid_bag_parts (part) ON DELETE CASCADE,
    CONSTRAINT grid_bag_tasks_job_fkey FOREIGN KEY(job) REFERENCES grid_jobs (id) ON DELETE CASCADE
);
CREATE INDEX grid_bag_tasks_job ON grid_bag_tasks (job, state);
CREATE UNIQUE INDEX grid_bag_tasks_one ON grid_bag_tasks (job, task) WHERE state = 'Live';
COMMENT ON TABLE grid_bag_tasks IS 'copies of tasks of bags on clusters';
COMMENT ON COLUMN grid_bag_tasks.part IS 'the part';
COMMENT ON COLUMN grid_bag_tasks.task IS 'number of the task in its bag, from 1 on';
COMMENT ON COLUMN grid_bag_tasks.job IS 'the job';
COMMENT ON COLUMN grid_bag_tasks.state IS
    'Asked: undecided; Live: it can start, or runs; Over; Failed; Lost with its cluster; Gone: another is to come';
COMMENT ON COLUMN grid_bag_tasks.exit_status IS 'how it ended';
COMMENT ON COLUMN grid_bag_tasks.message IS 'why it failed, or is lost';
ALTER TABLE door_parts ADD COLUMN tasks INTEGER[] DEFAULT '{}' NOT NULL
    CONSTRAINT door_parts_tasks_check
    CHECK ((tasks = '{}') OR ((array_ndims(tasks) = 1) AND (array_position(tasks, NULL) IS NULL)));
COMMENT ON COLUMN door_parts.tasks IS 'of a bag: the numbers that its tasks have over all clusters';
ALTER TABLE door_parts ADD COLUMN offer TEXT DEFAULT '' NOT NULL;
COMMENT ON COLUMN door_parts.offer IS 'of a bag: the offer that it takes up; empty: none';
ALTER TABLE door_parts ADD COLUMN completion TIMESTAMP WITH TIME ZONE
    CONSTRAINT door_parts_completion_check
    CHECK ((completion >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
        AND (completion < TIMESTAMPTZ '3000-01-01 00:00:00+00'));
COMMENT ON COLUMN door_parts.completion IS 'of a bag: when it is done over all clusters, as its broker told';
ALTER TABLE door_parts ADD COLUMN completion_version INTEGER DEFAULT 0 NOT NULL
    CONSTRAINT door_parts_completion_version_check CHECK (completion_version >= 0);
COMMENT ON COLUMN door_parts.completion_version IS 'number of that message';
ALTER TABLE door_events ADD COLUMN task INTEGER;
COMMENT ON COLUMN door_events.task IS 'number of the task that is over';
ALTER TABLE door_events ADD COLUMN completion TIMESTAMP WITH TIME ZONE
    CONSTRAINT door_events_completion_check
    CHECK ((completion >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
        AND (completion < TIMESTAMPTZ '3000-01-01 00:00:00+00'));
COMMENT ON COLUMN door_events.completion IS 'when the last task of its bag is done here, as planned then';
ALTER TABLE door_parts DROP CONSTRAINT door_parts_begin_unless_queued,
    ADD CONSTRAINT door_parts_begin_unless_queued CHECK ((begin_at IS NULL) = (kind IN ('queued', 'bag')));
"""
_LATER = """
ALTER TABLE door_parts ADD CONSTRAINT door_parts_tasks_of_bag CHECK ((tasks = '{}') = (kind <> 'bag'));
CREATE UNIQUE INDEX door_parts_offer ON door_parts (broker, offer) WHERE offer <> '';
"""
_KINDS = """
ALTER TABLE grid_jobs DROP CONSTRAINT grid_jobs_kind_check,
    ADD CONSTRAINT grid_jobs_kind_check CHECK (kind IN ({jobs}));
COMMENT ON COLUMN grid_jobs.kind IS '{meaning}';
ALTER TABLE grid_parts DROP CONSTRAINT grid_parts_kind_check,
    ADD CONSTRAINT grid_parts_kind_check CHECK (kind IN ({parts}));
COMMENT ON COLUMN grid_parts.kind IS '{part_meaning}';
ALTER TABLE door_parts DROP CONSTRAINT door_parts_kind_check,
    ADD CONSTRAINT door_parts_kind_check CHECK (kind IN ({parts}));
COMMENT ON COLUMN door_parts.kind IS '{door_meaning}';
COMMENT ON COLUMN door_parts.job_id IS '{job_meaning}';
ALTER TABLE door_events DROP CONSTRAINT door_events_kind_check,
    ADD CONSTRAINT door_events_kind_check CHECK (kind IN ({events}));
"""
_JOBS, _PARTS = "'mapped', 'coallocated', 'named', 'metajob'", "'claim', 'queued', 'reserved'"
_EVENTS = "'started', 'ended', 'failed', 'lost', 'evicted', 'lapsed', 'idle'"
_MEANING = (
    "mapped: on one cluster; coallocated: components that start together; named: parts on named clusters;"
    " metajob: one program over clusters that the broker chooses"
)
_DOOR_MEANING = "claim: holds idle resources; queued: waits in its queue; reserved: holds from a date on"


def upgrade() -> None:
    """Make the tables, and let jobs, parts and events be of the new kinds."""
    op.execute(_TABLES)
    op.execute(
        _KINDS.format(
            jobs=f"{_JOBS}, 'bag'",
            meaning=f"{_MEANING}; bag: equal tasks over clusters",
            parts=f"{_PARTS}, 'bag'",
            part_meaning="claim, queued, reserved or bag",
            door_meaning=f"{_DOOR_MEANING}; bag: tasks of a bag",
            job_meaning="the job that it is; of a bag its first task",
            events=f"{_EVENTS}, 'task', 'completion'",
        )
    )
    op.execute(_LATER)
    make(op.get_bind(), "functions", "grid_bag_noticed", "parts_told")


def downgrade() -> None:
    """Take all of it back: such jobs are gone here, and their tasks are bags of the clusters alone."""
    op.execute("DROP TABLE grid_bag_tasks, grid_bag_parts, grid_bags; DROP FUNCTION grid_bag_noticed")
    op.execute("DELETE FROM door_events WHERE kind IN ('task', 'completion')")
    op.execute("DELETE FROM door_parts WHERE kind = 'bag'")
    op.execute("DELETE FROM grid_parts WHERE job IN (SELECT id FROM grid_jobs WHERE kind = 'bag')")
    op.execute("DELETE FROM grid_jobs WHERE kind = 'bag'")
    op.execute(
        """
        ALTER TABLE door_events DROP COLUMN task, DROP COLUMN completion;
        ALTER TABLE door_parts DROP CONSTRAINT door_parts_tasks_of_bag,
            DROP CONSTRAINT door_parts_begin_unless_queued,
            ADD CONSTRAINT door_parts_begin_unless_queued CHECK ((begin_at IS NULL) = (kind = 'queued')),
            DROP COLUMN tasks, DROP COLUMN offer, DROP COLUMN completion, DROP COLUMN completion_version
        """
    )
    op.execute(
        _KINDS.format(
            jobs=_JOBS,
            meaning=_MEANING,
            parts=_PARTS,
            part_meaning="claim, queued or reserved",
            door_meaning=_DOOR_MEANING,
            job_meaning="the job that it is",
            events=_EVENTS,
        )
    )
