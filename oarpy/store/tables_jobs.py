"""Tables of submissions, jobs and their history. For Alembic and tests."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
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
from sqlalchemy.dialects.postgresql import (
    ARRAY,
    INT4MULTIRANGE,
    INTERVAL,
    JSONB,
    TIMESTAMP,
    TSTZRANGE,
    ExcludeConstraint,
)

from oarpy.store.tables_platform import METADATA

job_states = Table(
    "job_states",
    METADATA,
    Column("state", Text, primary_key=True),
    Column("letter", Text, nullable=False),
    Column("final", Boolean, nullable=False),
    Column("holding", Boolean, nullable=False),
    CheckConstraint("letter ~ '^[A-Z]$'", name="job_states_letter_check"),
)

job_transitions = Table(
    "job_transitions",
    METADATA,
    Column("from_state", Text, ForeignKey("job_states.state"), primary_key=True),
    Column("to_state", Text, ForeignKey("job_states.state"), primary_key=True),
    Column("event", Text, nullable=False),
    Column("who", Text, nullable=False),
)

job_passages = Table(
    "job_passages",
    METADATA,
    Column("from_state", Text, ForeignKey("job_states.state"), primary_key=True),
    Column("to_state", Text, ForeignKey("job_states.state"), primary_key=True),
    Column("through", ARRAY(Text), nullable=False),
    CheckConstraint("through <> '{}'", name="job_passages_through_check"),
)

submissions = Table(
    "submissions",
    METADATA,
    Column("submission_id", BigInteger, Identity(always=True), primary_key=True),
    Column("initial_request", Text, nullable=False, server_default=""),
    Column("environment", JSONB, nullable=False, server_default="{}"),
    Column("request", JSONB, nullable=False, server_default="{}"),
    Column("submitted_from", Text, nullable=False, server_default=""),
    CheckConstraint("jsonb_typeof(environment) = 'object'", name="submissions_environment_check"),
)

moldable_descriptions = Table(
    "moldable_descriptions",
    METADATA,
    Column("moldable_id", BigInteger, Identity(always=True), primary_key=True),
    Column("submission_id", BigInteger, ForeignKey("submissions.submission_id", ondelete="CASCADE"), nullable=False),
    Column("position", SmallInteger, nullable=False),
    Column("walltime", INTERVAL, nullable=False),
    CheckConstraint("position >= 0", name="moldable_descriptions_position_check"),
    CheckConstraint("walltime > interval '0'", name="moldable_descriptions_walltime_check"),
    UniqueConstraint("submission_id", "position", name="moldable_descriptions_submission_id_position_key"),
)

resource_groups = Table(
    "resource_groups",
    METADATA,
    Column("group_id", BigInteger, Identity(always=True), primary_key=True),
    Column(
        "moldable_id", BigInteger, ForeignKey("moldable_descriptions.moldable_id", ondelete="CASCADE"), nullable=False
    ),
    Column("position", SmallInteger, nullable=False),
    Column("filter", Text, nullable=False, server_default=""),
    CheckConstraint("position >= 0", name="resource_groups_position_check"),
    UniqueConstraint("moldable_id", "position", name="resource_groups_moldable_id_position_key"),
)

resource_descriptions = Table(
    "resource_descriptions",
    METADATA,
    Column(
        "group_id",
        BigInteger,
        ForeignKey("resource_groups.group_id", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("position", SmallInteger, primary_key=True, autoincrement=False),
    Column("level", Text, nullable=False),
    Column("count", Integer, nullable=False),
    CheckConstraint("(count > 0) OR (count IN (-1, -2, -3))", name="resource_descriptions_count_check"),
    CheckConstraint("level ~ '^[A-Za-z_][A-Za-z0-9_]{0,62}$'", name="resource_descriptions_level_check"),
    CheckConstraint("position >= 0", name="resource_descriptions_position_check"),
)

jobs = Table(
    "jobs",
    METADATA,
    Column("job_id", BigInteger, Identity(), primary_key=True),
    Column("submission_id", BigInteger, ForeignKey("submissions.submission_id"), nullable=False),
    Column("array_id", BigInteger, nullable=False),
    Column("array_index", Integer, nullable=False, server_default=text("1")),
    Column("job_name", Text, nullable=False, server_default=""),
    Column("user_name", Text, nullable=False),
    Column("project", Text, nullable=False, server_default="default"),
    Column("queue_name", Text, ForeignKey("queues.queue_name"), nullable=False),
    Column("kind", Text, nullable=False, server_default="PASSIVE"),
    Column("types", ARRAY(Text), nullable=False, server_default="{}"),
    Column("properties", Text, nullable=False, server_default=""),
    Column("command", Text, nullable=False, server_default=""),
    Column("launching_directory", Text, nullable=False, server_default="/"),
    Column("stdout_path", Text, nullable=False, server_default=""),
    Column("stderr_path", Text, nullable=False, server_default=""),
    Column("checkpoint", INTERVAL, nullable=False, server_default=text("'0'")),
    Column("checkpoint_signal", SmallInteger, nullable=False, server_default=text("12")),
    Column("notify", Text, nullable=False, server_default=""),
    Column("reservation_start", TIMESTAMP(timezone=True)),
    Column("reservation_state", Text),
    Column("resubmit_of", BigInteger, ForeignKey("jobs.job_id")),
    Column("state", Text, ForeignKey("job_states.state"), nullable=False, server_default="Waiting"),
    Column("message", Text, nullable=False, server_default=""),
    Column("attempt", SmallInteger, nullable=False, server_default=text("0")),
    Column("incarnation", Text, nullable=False, server_default=""),
    Column("moldable_id", BigInteger, ForeignKey("moldable_descriptions.moldable_id")),
    Column("walltime", INTERVAL),
    Column("exit_status", Integer),
    Column("final_state", Text),
    Column("submitted_at", TIMESTAMP(timezone=True), nullable=False, server_default=text("now()")),
    Column("started_at", TIMESTAMP(timezone=True)),
    Column("ended_at", TIMESTAMP(timezone=True)),
    Column("accounted", Boolean, nullable=False, server_default=text("false")),
    Column("reservation_offer", TIMESTAMP(timezone=True)),
    Column("suspended_at", TIMESTAMP(timezone=True)),
    Column("suspended_time", INTERVAL, nullable=False, server_default=text("'0'")),
    CheckConstraint("(NOT accounted) OR (ended_at IS NOT NULL)", name="accounted_when_final"),
    CheckConstraint(
        "(state NOT IN ('toLaunch', 'Launching', 'Running', 'Suspended', 'Resuming', 'Finishing', "
        "'Terminated')) OR ((moldable_id IS NOT NULL) AND (walltime IS NOT NULL))",
        name="alternative_when_holding",
    ),
    CheckConstraint("(state IN ('Terminated', 'Error')) = (ended_at IS NOT NULL)", name="ended_when_final"),
    CheckConstraint("(started_at IS NULL) OR (ended_at IS NULL) OR (ended_at >= started_at)", name="ends_after_start"),
    CheckConstraint("(state <> 'Finishing') OR (final_state IS NOT NULL)", name="final_state_when_finishing"),
    CheckConstraint("array_index > 0", name="jobs_array_index_check"),
    CheckConstraint("attempt >= 0", name="jobs_attempt_check"),
    CheckConstraint("checkpoint >= interval '0'", name="jobs_checkpoint_check"),
    CheckConstraint("checkpoint_signal BETWEEN 1 AND 64", name="jobs_checkpoint_signal_check"),
    CheckConstraint("final_state IN ('Terminated', 'Error')", name="jobs_final_state_check"),
    CheckConstraint("job_name ~ '^[ -~]{0,200}$'", name="jobs_job_name_check"),
    CheckConstraint("kind IN ('PASSIVE', 'INTERACTIVE')", name="jobs_kind_check"),
    CheckConstraint("project <> ''", name="jobs_project_check"),
    CheckConstraint("reservation_state IN ('toSchedule', 'Scheduled')", name="jobs_reservation_state_check"),
    CheckConstraint("user_name <> ''", name="jobs_user_name_check"),
    CheckConstraint("walltime > interval '0'", name="jobs_walltime_check"),
    CheckConstraint("(reservation_start IS NULL) = (reservation_state IS NULL)", name="reservation_whole"),
    CheckConstraint(
        "(state NOT IN ('Running', 'Suspended', 'Resuming', 'Terminated')) OR (started_at IS NOT NULL)",
        name="started_when_running",
    ),
    CheckConstraint("(suspended_at IS NOT NULL) = (state IN ('Suspended', 'Resuming'))", name="suspended_since"),
    Index("jobs_array", "array_id"),
    Index("jobs_ended_at", "ended_at", postgresql_where=text("ended_at IS NOT NULL")),
    Index("jobs_live", "job_id", unique=True, postgresql_where=text("state NOT IN ('Terminated', 'Error')")),
    Index("jobs_live_state", "state", postgresql_where=text("state NOT IN ('Terminated', 'Error')")),
    Index("jobs_resubmit_of", "resubmit_of", postgresql_where=text("resubmit_of IS NOT NULL")),
    Index("jobs_submission", "submission_id"),
    Index("jobs_unaccounted", "job_id", postgresql_where=text("(ended_at IS NOT NULL) AND (NOT accounted)")),
    Index("jobs_user", "user_name", "job_id"),
)

job_dependencies = Table(
    "job_dependencies",
    METADATA,
    Column("job_id", BigInteger, ForeignKey("jobs.job_id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("required_job_id", BigInteger, ForeignKey("jobs.job_id"), primary_key=True, autoincrement=False),
    Column("outcome", Text, nullable=False, server_default="any"),
    Column("earliest_edge", Text),
    Column("earliest_shift", INTERVAL),
    Column("latest_edge", Text),
    Column("latest_shift", INTERVAL),
    CheckConstraint("(earliest_edge IS NULL) = (earliest_shift IS NULL)", name="earliest_whole"),
    CheckConstraint("job_id <> required_job_id", name="job_dependencies_check"),
    CheckConstraint("earliest_edge IN ('start', 'end')", name="job_dependencies_earliest_edge_check"),
    CheckConstraint("latest_edge IN ('start', 'end')", name="job_dependencies_latest_edge_check"),
    CheckConstraint("(latest_edge IS NULL) = (latest_shift IS NULL)", name="latest_whole"),
    CheckConstraint("outcome IN ('any', 'ok', 'notok')", name="job_dependencies_outcome_check"),
    Index("job_dependencies_required", "required_job_id"),
)

job_state_logs = Table(
    "job_state_logs",
    METADATA,
    Column("job_id", BigInteger, ForeignKey("jobs.job_id", ondelete="CASCADE"), nullable=False),
    Column("state", Text, ForeignKey("job_states.state"), nullable=False),
    Column("previous_state", Text),
    Column("during", TSTZRANGE, nullable=False),
    ForeignKeyConstraint(["previous_state", "state"], ["job_transitions.from_state", "job_transitions.to_state"]),
    Index("job_state_logs_job", "job_id"),
    Index(
        "job_state_logs_open",
        "job_id",
        unique=True,
        postgresql_where=text("upper_inf(during) AND (state NOT IN ('Terminated', 'Error'))"),
    ),
)

assigned_resources = Table(
    "assigned_resources",
    METADATA,
    Column("job_id", BigInteger, ForeignKey("jobs.job_id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("resource_id", Integer, ForeignKey("resources.resource_id"), primary_key=True, autoincrement=False),
    Column("during", TSTZRANGE, nullable=False),
    Column("exclusive", Boolean, nullable=False, server_default=text("true")),
    Column("suspended", Boolean, nullable=False, server_default=text("false")),
    ExcludeConstraint(
        ("resource_id", "="),
        ("during", "&&"),
        name="one_exclusive_holder",
        using="gist",
        where=text("exclusive AND (NOT suspended)"),
    ),
    Index("assigned_resources_held", "resource_id", postgresql_where=text("upper_inf(during)")),
    Index("assigned_resources_suspended", "resource_id", postgresql_where=text("suspended")),
)

reserved_resources = Table(
    "reserved_resources",
    METADATA,
    Column("job_id", BigInteger, ForeignKey("jobs.job_id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("resource_id", Integer, ForeignKey("resources.resource_id"), primary_key=True, autoincrement=False),
    Column("during", TSTZRANGE, nullable=False),
    Column("exclusive", Boolean, nullable=False, server_default=text("true")),
    ExcludeConstraint(
        ("resource_id", "="), ("during", "&&"), name="one_exclusive_reservation", using="gist", where=text("exclusive")
    ),
)

gantt_predictions = Table(
    "gantt_predictions",
    METADATA,
    Column("job_id", BigInteger, ForeignKey("jobs.job_id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("verdict", Text, nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
    Column("moldable_id", BigInteger, ForeignKey("moldable_descriptions.moldable_id", ondelete="CASCADE")),
    Column("start_time", TIMESTAMP(timezone=True)),
    Column("end_time", TIMESTAMP(timezone=True)),
    Column("resources", INT4MULTIRANGE, nullable=False, server_default="{}"),
    CheckConstraint("(start_time IS NULL) = (end_time IS NULL)", name="gantt_predictions_check"),
    CheckConstraint("(start_time IS NULL) = (moldable_id IS NULL)", name="gantt_predictions_check1"),
    CheckConstraint(
        "verdict IN ('starts', 'reserved', 'held', 'dependency', 'date', 'reservation', 'quota', "
        "'resources_busy', 'behind_higher_priority', 'resources_down', 'never')",
        name="gantt_predictions_verdict_check",
    ),
)

scheduling_passes = Table(
    "scheduling_passes",
    METADATA,
    Column("only_row", Boolean, primary_key=True, server_default=text("true")),
    Column("pass", BigInteger, nullable=False, server_default=text("0")),
    Column("at", TIMESTAMP(timezone=True), nullable=False, server_default=text("now()")),
    Column("seconds", Double, nullable=False, server_default=text("0")),
    Column("waiting", Integer, nullable=False, server_default=text("0")),
    CheckConstraint("only_row", name="scheduling_passes_only_row_check"),
)

kill_requests = Table(
    "kill_requests",
    METADATA,
    Column("job_id", BigInteger, ForeignKey("jobs.job_id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("requested_at", TIMESTAMP(timezone=True), nullable=False, server_default=text("now()")),
    Column("requested_by", Text, nullable=False, server_default=text("SESSION_USER")),
    Column("reason", Text, nullable=False, server_default="oardel"),
    Column("state", Text, nullable=False, server_default="asked"),
    Column("not_before", TIMESTAMP(timezone=True)),
    CheckConstraint("reason <> ''", name="kill_requests_reason_check"),
    CheckConstraint("state IN ('asked', 'decided', 'done')", name="kill_requests_state_check"),
    Index("kill_requests_open", "job_id", postgresql_where=text("state <> 'done'")),
)

signal_requests = Table(
    "signal_requests",
    METADATA,
    Column("request_id", BigInteger, Identity(always=True), primary_key=True),
    Column("job_id", BigInteger, ForeignKey("jobs.job_id", ondelete="CASCADE"), nullable=False),
    Column("signal", SmallInteger, nullable=False),
    Column("requested_at", TIMESTAMP(timezone=True), nullable=False, server_default=text("now()")),
    Column("requested_by", Text, nullable=False, server_default=text("SESSION_USER")),
    Column("done", Boolean, nullable=False, server_default=text("false")),
    Column("elsewhere", Boolean, nullable=False, server_default=text("false")),
    CheckConstraint("signal BETWEEN 1 AND 64", name="signal_requests_signal_check"),
    Index("signal_requests_elsewhere", "job_id", "requested_at", unique=True, postgresql_where=text("elsewhere")),
    Index("signal_requests_open", "job_id", postgresql_where=text("NOT done")),
)

event_logs = Table(
    "event_logs",
    METADATA,
    Column("event_id", BigInteger, Identity(always=True), primary_key=True),
    Column("at", TIMESTAMP(timezone=True), nullable=False, server_default=text("clock_timestamp()")),
    Column("type", Text, nullable=False),
    Column("job_id", BigInteger, ForeignKey("jobs.job_id", ondelete="CASCADE")),
    Column("hosts", ARRAY(Text), nullable=False, server_default="{}"),
    Column("description", Text, nullable=False, server_default=""),
    CheckConstraint("type ~ '^[A-Z][A-Z0-9_]*$'", name="event_logs_type_check"),
    Index("event_logs_at", "at"),
    Index("event_logs_job", "job_id", postgresql_where=text("job_id IS NOT NULL")),
)

accounting = Table(
    "accounting",
    METADATA,
    Column("window_start", TIMESTAMP(timezone=True), primary_key=True),
    Column("window_stop", TIMESTAMP(timezone=True), primary_key=True),
    Column("user_name", Text, primary_key=True),
    Column("project", Text, primary_key=True),
    Column("queue_name", Text, primary_key=True),
    Column("consumption_type", Text, primary_key=True),
    Column("consumption", Numeric, nullable=False),
    CheckConstraint("window_stop > window_start", name="accounting_check"),
    CheckConstraint("consumption >= 0", name="accounting_consumption_check"),
    CheckConstraint("consumption_type IN ('ASKED', 'USED')", name="accounting_consumption_type_check"),
)
