"""Projects that pay for jobs have rows, members, and a history of their changes.

Revision ID: 0089
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0089"
down_revision = "0088"

_TABLES = """
CREATE TABLE projects (
    project TEXT NOT NULL CONSTRAINT projects_project_check CHECK (project <> ''),
    parent TEXT,
    share DOUBLE PRECISION DEFAULT 1 NOT NULL
        CONSTRAINT projects_share_check
            CHECK ((share >= 0) AND (share BETWEEN -9007199254740992 AND 9007199254740992)),
    hours NUMERIC
        CONSTRAINT projects_hours_check
            CHECK ((hours >= 0) AND (hours BETWEEN -9007199254740992 AND 9007199254740992)),
    period TEXT DEFAULT 'ever' NOT NULL
        CONSTRAINT projects_period_check CHECK (period IN ('week', 'month', 'quarter', 'year', 'ever')),
    weight DOUBLE PRECISION DEFAULT 1 NOT NULL
        CONSTRAINT projects_weight_check
            CHECK ((weight >= 0) AND (weight BETWEEN -9007199254740992 AND 9007199254740992)),
    until TIMESTAMP WITH TIME ZONE
        CONSTRAINT projects_until_check
            CHECK ((until >= TIMESTAMPTZ '1970-01-01 00:00:00+00') AND (until < TIMESTAMPTZ '3000-01-01 00:00:00+00')),
    when_spent TEXT DEFAULT 'refuse' NOT NULL
        CONSTRAINT projects_when_spent_check CHECK (when_spent IN ('refuse', 'wait', 'besteffort')),
    CONSTRAINT projects_pkey PRIMARY KEY (project),
    CONSTRAINT no_parent_of_its_own CHECK (parent <> project),
    CONSTRAINT projects_parent_fkey FOREIGN KEY(parent) REFERENCES projects (project) ON UPDATE CASCADE
);
CREATE INDEX projects_parent ON projects (parent) WHERE parent IS NOT NULL;
COMMENT ON TABLE projects IS
    'the projects that pay for jobs, each below at most one other; a trigger refuses circles';
COMMENT ON COLUMN projects.project IS 'its name, as jobs have it';
COMMENT ON COLUMN projects.parent IS 'the project that it is a part of; NULL: of none';
COMMENT ON COLUMN projects.share IS 'its part among those of the same parent, for fair share';
COMMENT ON COLUMN projects.hours IS
    'billing units, in hours, that it and those below it have in each period; NULL: no limit';
COMMENT ON COLUMN projects.period IS 'when they begin anew, in UTC; ever: never';
COMMENT ON COLUMN projects.weight IS 'what its jobs are billed, times what they use';
COMMENT ON COLUMN projects.until IS 'from when on none of its jobs is submitted or started';
COMMENT ON COLUMN projects.when_spent IS
    'what becomes of a submission without hours left: refuse, wait or besteffort';
CREATE TABLE project_members (
    project TEXT NOT NULL,
    user_name TEXT NOT NULL CONSTRAINT project_members_user_name_check CHECK (user_name <> ''),
    role TEXT DEFAULT 'member' NOT NULL
        CONSTRAINT project_members_role_check CHECK (role IN ('member', 'coordinator')),
    preferred BOOLEAN DEFAULT false NOT NULL,
    CONSTRAINT project_members_pkey PRIMARY KEY (project, user_name),
    CONSTRAINT project_members_project_fkey FOREIGN KEY(project) REFERENCES projects (project)
        ON DELETE CASCADE ON UPDATE CASCADE
);
CREATE UNIQUE INDEX one_preferred_project ON project_members (user_name) WHERE preferred;
CREATE INDEX project_members_user ON project_members (user_name);
COMMENT ON TABLE project_members IS 'whose jobs a project pays for';
COMMENT ON COLUMN project_members.project IS 'the project';
COMMENT ON COLUMN project_members.user_name IS 'the user';
COMMENT ON COLUMN project_members.role IS 'member, or coordinator, who sees to its members and to what is below it';
COMMENT ON COLUMN project_members.preferred IS 'whether jobs of the user that name no project are for this one';
CREATE TABLE project_changes (
    change_id BIGINT GENERATED ALWAYS AS IDENTITY,
    changed_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL
        CONSTRAINT project_changes_changed_at_check
            CHECK ((changed_at >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
                AND (changed_at < TIMESTAMPTZ '3000-01-01 00:00:00+00')),
    changed_by TEXT DEFAULT coalesce(nullif(current_setting('oarpy.author', true), ''), SESSION_USER) NOT NULL,
    relation TEXT NOT NULL,
    change TEXT NOT NULL CONSTRAINT project_changes_change_check CHECK (change IN ('made', 'changed', 'removed')),
    content JSONB NOT NULL,
    CONSTRAINT project_changes_pkey PRIMARY KEY (change_id)
);
COMMENT ON TABLE project_changes IS 'every change of projects and of their members; written by triggers';
COMMENT ON COLUMN project_changes.change_id IS 'number of the change';
COMMENT ON COLUMN project_changes.changed_at IS 'when';
COMMENT ON COLUMN project_changes.changed_by IS 'who changed it';
COMMENT ON COLUMN project_changes.relation IS 'projects or project_members';
COMMENT ON COLUMN project_changes.change IS 'made, changed or removed';
COMMENT ON COLUMN project_changes.content IS 'the row after it; the last one of a row that was removed';
ALTER TABLE site ADD COLUMN projects_version BIGINT DEFAULT 0 NOT NULL
    CONSTRAINT site_projects_version_check CHECK (projects_version BETWEEN 0 AND 9007199254740992);
COMMENT ON COLUMN site.projects_version IS
    'changes whenever projects do: sessions that change them wait for each other here';
"""


def upgrade() -> None:
    """Make the tables, and what guards them."""
    op.get_bind().exec_driver_sql(_TABLES, execution_options={"no_parameters": True})
    make(op.get_bind(), "functions", "project_noted", "projects_changed", "history_stays")


def downgrade() -> None:
    """Forget the projects; jobs keep the names of theirs."""
    op.execute(
        "DROP TABLE project_changes, project_members, projects; DROP FUNCTION projects_changed, project_noted;"
        " ALTER TABLE site DROP COLUMN projects_version"
    )
