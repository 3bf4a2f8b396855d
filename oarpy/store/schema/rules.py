"""Queues, admission rules, quotas and tokens: the rules of an admin."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Numeric,
    SmallInteger,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TIME, ExcludeConstraint
from sqlalchemy.sql.schema import SchemaItem

from oarpy.store.schema.columns import AUTHOR, CLOCK, INSTANT, NOW, column, rule, table


def manner_of_giving_way(jobs: str, them: str) -> tuple[SchemaItem, ...]:
    """Return the columns that say how some jobs give way, called so in the first meaning and in the second."""
    return (
        column(
            "manner",
            Text,
            f"how {jobs} give way: end; requeue, submitted again; suspend, until their resources are free again",
            default="end",
            check="manner IN ('end', 'requeue', 'suspend')",
        ),
        column(
            "grace",
            Integer,
            f"seconds that {them} have between the signal and their end",
            default=0,
            check="grace BETWEEN 0 AND 86400",
        ),
        column(
            "grace_signal", SmallInteger, "signal that they get then", default=15, check="grace_signal BETWEEN 1 AND 64"
        ),
    )


queues = table(
    "queues",
    "the queues that jobs wait in",
    column("queue_name", Text, "name of the queue", key=True, check="queue_name ~ '^[A-Za-z][A-Za-z0-9_.-]{0,62}$'"),
    column("priority", Integer, "queues with a higher one are planned first", check="priority BETWEEN 0 AND 1000000"),
    column("policy", Text, "order of the jobs inside the queue", default="fifo", check="policy <> ''"),
    column("active", Boolean, "whether jobs of the queue are started", default=True),
    column("message", Text, "what users are told about the queue", default=""),
    column(
        "gives_way_to",
        ARRAY(Text),
        "queues whose jobs may take the resources of its jobs, as jobs of higher levels may",
        default="{}",
    ),
    *manner_of_giving_way("its jobs", "its jobs"),
    rule("queues_give_way_to_others", "NOT queue_name = ANY (gives_way_to)"),
)

admission_rules = table(
    "admission_rules",
    "the rules that every submission goes through",
    column("rule_id", Integer, "number of the rule", Identity(always=True), key=True),
    column("name", Text, "its name, which stays", check="name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$'"),
    column("priority", Integer, "rules with a lower one run first", check="priority BETWEEN 0 AND 1000000"),
    column("enabled", Boolean, "whether it runs", default=True),
    column("rule_text", Text, "its Python text"),
    column("version", Integer, "number of the present version", default=1, check="version > 0"),
    UniqueConstraint("name"),
)

admission_rule_versions = table(
    "admission_rule_versions",
    "every version of every rule; written by triggers",
    column("name", Text, "the rule", key=True),
    column("version", Integer, "number of the version, from 1", key=True),
    column("priority", Integer, "its priority then"),
    column("enabled", Boolean, "whether it ran then"),
    column("rule_text", Text, "its text then"),
    column("deleted", Boolean, "whether this is the end of the rule", default=False),
    column("changed_at", INSTANT, "since when", default=NOW),
    column("changed_by", Text, "who changed it", default=AUTHOR),
)

quota_sets = table(
    "quota_sets",
    "sets of quota rules that are valid together, at the times of quota_periods and quota_exceptions",
    column("set_name", Text, "name of the set", key=True, check="set_name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$'"),
    column(
        "otherwise",
        Boolean,
        "whether it is valid whenever no period and no exception is; at most one is",
        default=False,
    ),
    Index("quota_sets_otherwise", "otherwise", unique=True, postgresql_where=text("otherwise")),
)

quotas = table(
    "quotas",
    "limits on what runs at one time, by queue, project, job type and user",
    column("quota_id", Integer, "number of the quota", Identity(always=True), key=True),
    column("queue_name", Text, "a queue, * for all together, / for each one", default="*"),
    column("project", Text, "a project, * or /", default="*"),
    column("job_type", Text, "a job type, * or /", default="*"),
    column("user_name", Text, "a user, * or /", default="*"),
    column(
        "max_resources", Integer, "resources held at one time, -1 for no limit", default=-1, check="max_resources >= -1"
    ),
    column("max_jobs", Integer, "jobs at one time, -1 for no limit", default=-1, check="max_jobs >= -1"),
    column(
        "max_resource_hours",
        Numeric,
        "resource-hours at one time, -1 for no limit",
        default=-1,
        check="(max_resource_hours >= 0) OR (max_resource_hours = -1)",
    ),
    column(
        "set_name",
        Text,
        "the rule holds when this set is valid; NULL: always",
        ForeignKey(quota_sets.c.set_name, onupdate="CASCADE", ondelete="CASCADE"),
        optional=True,
    ),
    column(
        "level",
        Text,
        "of the rules of one level the most specific applies to a job; those of different levels all do",
        default="default",
        check="level ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$'",
    ),
    UniqueConstraint(
        "queue_name",
        "project",
        "job_type",
        "user_name",
        "set_name",
        "level",
        name="one_rule_a_key",
        postgresql_nulls_not_distinct=True,
    ),
)

quota_periods = table(
    "quota_periods",
    "when in the week a set of quota rules is valid, in the time zone scheduler.time_zone",
    column("period_id", Integer, "number of the period", Identity(always=True), key=True),
    column(
        "set_name",
        Text,
        "the set that is valid",
        ForeignKey(quota_sets.c.set_name, onupdate="CASCADE", ondelete="CASCADE"),
    ),
    column("weekday", SmallInteger, "1 (Monday) to 7 (Sunday)", check="weekday BETWEEN 1 AND 7"),
    column("begins", TIME, "time of that day from which it is", default="00:00"),
    column("ends", TIME, "time of that day until which it is, 24:00 for all of the day", default="24:00"),
    column("label", Text, "what people call the period", default=""),
    rule("begins_before_end", "begins < ends"),
    ExcludeConstraint(
        ("weekday", "="),
        (text("numrange(EXTRACT(epoch FROM begins), EXTRACT(epoch FROM ends))"), "&&"),
        name="one_set_at_a_time",
        using="gist",
    ),
)

quota_exceptions = table(
    "quota_exceptions",
    "dates on which a set of quota rules is valid, whatever quota_periods says",
    column("exception_id", Integer, "number of the exception", Identity(always=True), key=True),
    column(
        "set_name",
        Text,
        "the set that is valid",
        ForeignKey(quota_sets.c.set_name, onupdate="CASCADE", ondelete="CASCADE"),
    ),
    column("begins_at", INSTANT, "when it begins to be valid"),
    column("ends_at", INSTANT, "when it ceases to be valid"),
    column("label", Text, "what people call these dates", default=""),
    rule("begins_before_end", "begins_at < ends_at"),
    ExcludeConstraint((text("tstzrange(begins_at, ends_at)"), "&&"), name="one_exception_at_a_time", using="gist"),
)

quota_changes = table(
    "quota_changes",
    "every change of quotas, of their sets and of when these are valid; written by triggers",
    column("change_id", BigInteger, "number of the change", Identity(always=True), key=True),
    column("changed_at", INSTANT, "when", default=CLOCK),
    column("changed_by", Text, "who changed it", default=AUTHOR),
    column("relation", Text, "quotas, quota_sets, quota_periods or quota_exceptions"),
    column("change", Text, "made, changed or removed", check="change IN ('made', 'changed', 'removed')"),
    column("content", JSONB, "the row after it; the last one of a row that was removed"),
)

access_tokens = table(
    "access_tokens",
    "by what requests over the web prove whose they are",
    column("token_id", BigInteger, "number of the token", Identity(always=True), key=True),
    column("user_name", Text, "whose requests they are", check="user_name <> ''"),
    column(
        "scope", Text, "read, submit or admin: the most that may be done", check="scope IN ('read', 'submit', 'admin')"
    ),
    column("digest", Text, "SHA-256 of the secret, in hexadecimal", check="digest ~ '^[0-9a-f]{64}$'"),
    column("label", Text, "what its user calls it", default=""),
    column("made_at", INSTANT, "when it was made", default=CLOCK),
    column("made_by", Text, "who made it", default=""),
    column("expires_at", INSTANT, "from when on it is not valid"),
    column("revoked_at", INSTANT, "when it was revoked; NULL: it was not", optional=True),
    column("used_at", INSTANT, "its last use, to the minute", optional=True),
    column("used_from", Text, "the address of that", default=""),
    column(
        "parent_id",
        BigInteger,
        "the token by which the user of a browser logged in; NULL: it is none of a browser",
        ForeignKey("access_tokens.token_id", ondelete="CASCADE"),
        optional=True,
    ),
    UniqueConstraint("digest"),
    Index("access_tokens_parent", "parent_id", postgresql_where=text("parent_id IS NOT NULL")),
)
