"""Projects that pay for jobs: a tree with shares and hours, and whose jobs each of them pays for."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Double, ForeignKey, Identity, Index, Numeric, Text, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from oarpy.store.schema.columns import AUTHOR, CLOCK, INSTANT, column, rule, table
from oarpy.store.schema.rules import manner_of_giving_way

projects = table(
    "projects",
    "the projects that pay for jobs, each below at most one other; a trigger refuses circles",
    column(
        "project",
        Text,
        "its name, as jobs have it",
        key=True,
        check="(project ~ '^[ -~]+$') AND (length(project) <= 200)",
    ),
    column(
        "parent",
        Text,
        "the project that it is a part of; NULL: of none",
        ForeignKey("projects.project", onupdate="CASCADE"),
        optional=True,
    ),
    column("share", Double, "its part among those of the same parent, for fair share", default=1, check="share >= 0"),
    column(
        "hours",
        Numeric,
        "billing units, in hours, that it and those below it have in each period; NULL: no limit",
        optional=True,
        check="hours >= 0",
    ),
    column(
        "period",
        Text,
        "when they begin anew, in UTC; ever: never",
        default="ever",
        check="period IN ('week', 'month', 'quarter', 'year', 'ever')",
    ),
    column("weight", Double, "what its jobs are billed, times what they use", default=1, check="weight >= 0"),
    column("until", INSTANT, "from when on none of its jobs is submitted or started", optional=True),
    column(
        "when_spent",
        Text,
        "what becomes of a submission without hours left: refuse, wait or besteffort",
        default="refuse",
        check="when_spent IN ('refuse', 'wait', 'besteffort')",
    ),
    column(
        "gives_way_to",
        ARRAY(Text),
        "projects whose jobs may take the resources of its jobs and of those below it, as jobs of higher levels may",
        default="{}",
    ),
    *manner_of_giving_way("these", "they"),
    rule("no_parent_of_its_own", "parent <> project"),
    rule("projects_give_way_to_others", "NOT project = ANY (gives_way_to)"),
    Index("projects_parent", "parent", postgresql_where=text("parent IS NOT NULL")),
)

project_members = table(
    "project_members",
    "whose jobs a project pays for",
    column(
        "project",
        Text,
        "the project",
        ForeignKey(projects.c.project, onupdate="CASCADE", ondelete="CASCADE"),
        key=True,
    ),
    column(
        "user_name",
        Text,
        "the user, called as a login may be, with or without a domain",
        key=True,
        check="(user_name ~ '^[A-Za-z0-9_.][A-Za-z0-9_.-]*[$]?(@[A-Za-z0-9.-]+)?$') AND (length(user_name) <= 255)",
    ),
    column(
        "role",
        Text,
        "member, or coordinator, who sees to its members and to what is below it",
        default="member",
        check="role IN ('member', 'coordinator')",
    ),
    column("preferred", Boolean, "whether jobs of the user that name no project are for this one", default=False),
    Index("project_members_user", "user_name"),
    Index("one_preferred_project", "user_name", unique=True, postgresql_where=text("preferred")),
)

project_changes = table(
    "project_changes",
    "every change of projects and of their members; written by triggers",
    column("change_id", BigInteger, "number of the change", Identity(always=True), key=True),
    column("changed_at", INSTANT, "when", default=CLOCK),
    column("changed_by", Text, "who changed it", default=AUTHOR),
    column("relation", Text, "projects or project_members"),
    column("change", Text, "made, changed or removed", check="change IN ('made', 'changed', 'removed')"),
    column("content", JSONB, "the row after it; the last one of a row that was removed"),
)
