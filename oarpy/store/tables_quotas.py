"""Tables of quotas: rules, the sets they belong to, and when these are valid. For Alembic and tests."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Numeric,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import TIME, TIMESTAMP, ExcludeConstraint

from oarpy.store.tables_platform import METADATA

quota_sets = Table(
    "quota_sets",
    METADATA,
    Column("set_name", Text, primary_key=True),
    Column("otherwise", Boolean, nullable=False, server_default=text("false")),
    CheckConstraint("set_name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$'", name="quota_sets_set_name_check"),
    Index("quota_sets_otherwise", "otherwise", unique=True, postgresql_where=text("otherwise")),
)


def _set_name(*, nullable: bool = False) -> Column[str]:
    target = ForeignKey("quota_sets.set_name", onupdate="CASCADE", ondelete="CASCADE")
    return Column("set_name", Text, target, nullable=nullable)


quotas = Table(
    "quotas",
    METADATA,
    Column("quota_id", Integer, Identity(always=True), primary_key=True),
    Column("queue_name", Text, nullable=False, server_default="*"),
    Column("project", Text, nullable=False, server_default="*"),
    Column("job_type", Text, nullable=False, server_default="*"),
    Column("user_name", Text, nullable=False, server_default="*"),
    Column("max_resources", Integer, nullable=False, server_default=text("-1")),
    Column("max_jobs", Integer, nullable=False, server_default=text("-1")),
    Column("max_resource_hours", Numeric, nullable=False, server_default=text("-1")),
    _set_name(nullable=True),
    CheckConstraint("max_jobs >= -1", name="quotas_max_jobs_check"),
    CheckConstraint("(max_resource_hours >= 0) OR (max_resource_hours = -1)", name="quotas_max_resource_hours_check"),
    CheckConstraint("max_resources >= -1", name="quotas_max_resources_check"),
    UniqueConstraint(
        "queue_name",
        "project",
        "job_type",
        "user_name",
        "set_name",
        name="one_rule_a_key",
        postgresql_nulls_not_distinct=True,
    ),
)

quota_periods = Table(
    "quota_periods",
    METADATA,
    Column("period_id", Integer, Identity(always=True), primary_key=True),
    _set_name(),
    Column("weekday", SmallInteger, nullable=False),
    Column("begins", TIME, nullable=False, server_default=text("'00:00:00'::time without time zone")),
    Column("ends", TIME, nullable=False, server_default=text("'24:00:00'::time without time zone")),
    Column("label", Text, nullable=False, server_default=""),
    CheckConstraint("weekday BETWEEN 1 AND 7", name="quota_periods_weekday_check"),
    CheckConstraint("begins < ends", name="begins_before_end"),
    ExcludeConstraint(
        ("weekday", "="),
        (text("numrange(EXTRACT(epoch FROM begins), EXTRACT(epoch FROM ends))"), "&&"),
        name="one_set_at_a_time",
        using="gist",
    ),
)

quota_exceptions = Table(
    "quota_exceptions",
    METADATA,
    Column("exception_id", Integer, Identity(always=True), primary_key=True),
    _set_name(),
    Column("begins_at", TIMESTAMP(timezone=True), nullable=False),
    Column("ends_at", TIMESTAMP(timezone=True), nullable=False),
    Column("label", Text, nullable=False, server_default=""),
    CheckConstraint("begins_at < ends_at", name="begins_before_end"),
    ExcludeConstraint((text("tstzrange(begins_at, ends_at)"), "&&"), name="one_exception_at_a_time", using="gist"),
)
