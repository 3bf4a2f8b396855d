"""Jobs, their states, and their dependencies."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    SmallInteger,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, INTERVAL, TSTZRANGE

from oarpy.model.submission import NICEST, SEEN_COLUMNS
from oarpy.model.submission_checks import LONGEST_COMMAND, LONGEST_PATH
from oarpy.store.schema.columns import INSTANT, NOW, column, rule, table
from oarpy.store.schema.rules import queues
from oarpy.store.schema.submissions import moldable_descriptions, submissions

job_states = table(
    "job_states",
    "the states of a job",
    column("state", Text, "name of the state", key=True),
    column("letter", Text, "its letter in oarstat", check="letter ~ '^[A-Z]$'"),
    column("final", Boolean, "whether nothing follows"),
    column("holding", Boolean, "whether the job holds its resources in it"),
)

job_transitions = table(
    "job_transitions",
    "the allowed moves between job states, for every SQL client",
    column("from_state", Text, "state before", ForeignKey(job_states.c.state), key=True),
    column("to_state", Text, "state after", ForeignKey(job_states.c.state), key=True),
    column("event", Text, "what such a move means"),
    column("who", Text, "the module or command that makes it"),
)

job_passages = table(
    "job_passages",
    "moves that stand for several allowed ones, made by one statement; the log shows them all",
    column("from_state", Text, "state before", ForeignKey(job_states.c.state), key=True),
    column("to_state", Text, "state after", ForeignKey(job_states.c.state), key=True),
    column("through", ARRAY(Text), "the states in between, in order", check="through <> '{}'"),
)

jobs = table(
    "jobs",
    "the jobs, one row for each member of an array",
    column("job_id", BigInteger, "number of the job", Identity(), key=True, check="job_id > 0"),
    column(
        "submission_id",
        BigInteger,
        "the submission that it came with",
        ForeignKey(submissions.c.submission_id),
        read_by_passes=True,
    ),
    column("array_id", BigInteger, "number of the first job of its array", read_by_passes=True),
    column("array_index", Integer, "place in the array, from 1", default=1, check="array_index > 0"),
    column(
        "job_name",
        Text,
        "name given by the user",
        default="",
        check="(job_name ~ '^[ -~]*$') AND (length(job_name) <= 200)",
    ),
    column("user_name", Text, "who submitted it, and whom it runs as", check="user_name <> ''"),
    column(
        "project",
        Text,
        "project that it counts for",
        default="default",
        check="(project ~ '^[ -~]+$') AND (length(project) <= 200)",
    ),
    column("queue_name", Text, "queue that it is in", ForeignKey(queues.c.queue_name)),
    column(
        "kind", Text, "PASSIVE (a script) or INTERACTIVE", default="PASSIVE", check="kind IN ('PASSIVE', 'INTERACTIVE')"
    ),
    column(
        "types",
        ARRAY(Text),
        "the words of oarsub -t",
        default="{}",
        check="(cardinality(types) <= 50) AND (array_to_string(types, '') ~ '^[ -~]*$')",
    ),
    column("properties", Text, "SQL condition that every resource of it must meet", default=""),
    column("command", Text, "what it runs", default="", check=f"octet_length(command) <= {LONGEST_COMMAND}"),
    column(
        "launching_directory",
        Text,
        "directory that it starts in",
        default="/",
        check=f"(launching_directory ~ '^/') AND (octet_length(launching_directory) <= {LONGEST_PATH})",
    ),
    column("stdout_path", Text, "file for its standard output", default=""),
    column("stderr_path", Text, "file for its standard error", default=""),
    column(
        "checkpoint",
        INTERVAL,
        "how long before the end of its walltime it is signalled",
        default="0",
        check="EXTRACT(epoch FROM checkpoint) >= 0",
        read_by_passes=True,
    ),
    column(
        "checkpoint_signal", SmallInteger, "with which signal", default=12, check="checkpoint_signal BETWEEN 1 AND 64"
    ),
    column("notify", Text, "whom to tell about its life", default=""),
    column("reservation_start", INSTANT, "start asked for by an advance reservation", optional=True),
    column(
        "reservation_state",
        Text,
        "toSchedule, then Scheduled once accepted",
        optional=True,
        check="reservation_state IN ('toSchedule', 'Scheduled')",
        read_by_passes=True,
    ),
    column("resubmit_of", BigInteger, "the job that it repeats", ForeignKey("jobs.job_id"), optional=True),
    column(
        "state",
        Text,
        "present state; job_transitions says what may follow",
        ForeignKey(job_states.c.state),
        default="Waiting",
    ),
    column("message", Text, "last remark of the system", default=""),
    column(
        "attempt",
        SmallInteger,
        "how often it was launched; a node starts each attempt once",
        default=0,
        check="attempt >= 0",
    ),
    column(
        "incarnation",
        Text,
        "of its first node when the attempt was claimed: fences off a node that forgot in between",
        default="",
    ),
    column(
        "moldable_id",
        BigInteger,
        "the alternative of its submission that was chosen",
        optional=True,
        read_by_passes=True,
    ),
    column(
        "walltime",
        INTERVAL,
        "walltime of that alternative, or what it was changed to",
        optional=True,
        check="EXTRACT(epoch FROM walltime) > 0",
        read_by_passes=True,
    ),
    column("exit_status", Integer, "wait status of its command", optional=True, read_by_passes=True),
    column(
        "final_state",
        Text,
        "what it will become when it is Finishing",
        optional=True,
        check="final_state IN ('Terminated', 'Error', 'Waiting')",
    ),
    column("submitted_at", INSTANT, "when it was submitted", default=NOW, read_by_passes=True),
    column("started_at", INSTANT, "when its command started", optional=True, read_by_passes=True),
    column("ended_at", INSTANT, "when it reached its final state", optional=True, read_by_passes=True),
    column("accounted", Boolean, "whether accounting has counted it", default=False),
    column(
        "reservation_offer",
        INSTANT,
        "of a refused reservation: the first date at which it could have been had, NULL for none",
        optional=True,
    ),
    column(
        "suspended_at", INSTANT, "since when it is suspended; NULL when it is not", optional=True, read_by_passes=True
    ),
    column(
        "suspended_time",
        INTERVAL,
        "how long it was suspended before, in all; added to its walltime",
        default="0",
        check="EXTRACT(epoch FROM suspended_time) >= 0",
        read_by_passes=True,
    ),
    column(
        "left_nothing",
        Boolean,
        "nothing of it is left on its nodes: said by the statement that ends it, once it was launched",
        default=False,
    ),
    column(
        "cpu_seconds",
        Double,
        "user and system time of its processes on all its nodes; NULL when nobody measured it",
        optional=True,
        check="cpu_seconds >= 0",
    ),
    column(
        "memory_peak",
        BigInteger,
        "the most bytes of memory that its processes had on one node; NULL when nobody measured it",
        optional=True,
        check="memory_peak >= 0",
    ),
    column(
        "nice",
        SmallInteger,
        "the greater, the later among the user's own jobs",
        default=0,
        check=f"nice BETWEEN 0 AND {NICEST}",
    ),
    column(
        "throttle",
        Integer,
        "how many members of its array may run at once; NULL: all",
        optional=True,
        check="throttle > 0",
        read_by_passes=True,
    ),
    ForeignKeyConstraint(
        ["submission_id", "moldable_id"],
        [moldable_descriptions.c.submission_id, moldable_descriptions.c.moldable_id],
        name="alternative_of_its_submission",
    ),
    rule(
        "alternative_when_holding",
        "(state NOT IN ('toLaunch', 'Launching', 'Running', 'Suspended', 'Resuming', 'Finishing', 'Terminated')) "
        "OR ((moldable_id IS NOT NULL) AND (walltime IS NOT NULL))",
    ),
    rule("final_state_when_finishing", "(state <> 'Finishing') OR (final_state IS NOT NULL)"),
    rule("ended_when_final", "(state IN ('Terminated', 'Error')) = (ended_at IS NOT NULL)"),
    rule("suspended_since", "(suspended_at IS NOT NULL) = (state IN ('Suspended', 'Resuming'))"),
    rule("reservation_whole", "(reservation_start IS NULL) = (reservation_state IS NULL)"),
    rule("ends_after_start", "(started_at IS NULL) OR (ended_at IS NULL) OR (ended_at >= started_at)"),
    rule("not_endless", "(ended_at - started_at) < interval '200000 hours'"),
    rule(
        "not_started_before_launch",
        "(state NOT IN ('Hold', 'Waiting', 'toAckReservation', 'toLaunch')) OR (started_at IS NULL)",
    ),
    rule("waits_again_unstarted", "(state <> 'Finishing') OR (final_state <> 'Waiting') OR (started_at IS NULL)"),
    rule(
        "left_nothing_when_off_nodes",
        "(NOT left_nothing) OR (state NOT IN ('Launching', 'Running', 'Suspended', 'Resuming', 'Finishing'))",
    ),
    rule("accounted_when_final", "(NOT accounted) OR (ended_at IS NOT NULL)"),
    rule(
        "started_when_running",
        "(state NOT IN ('Running', 'Suspended', 'Resuming', 'Terminated')) OR (started_at IS NOT NULL)",
    ),
    # Frequent reads go through these two: they hold live jobs alone, however long the history is.
    Index("jobs_live", "job_id", unique=True, postgresql_where=text("state NOT IN ('Terminated', 'Error')")),
    Index("jobs_live_state", "state", postgresql_where=text("state NOT IN ('Terminated', 'Error')")),
    Index("jobs_array", "array_id"),
    # a job that was resubmitted has copies at its place
    Index("jobs_array_place", "array_id", "array_index", unique=True, postgresql_where=text("resubmit_of IS NULL")),
    Index("jobs_ended_at", "ended_at", postgresql_where=text("ended_at IS NOT NULL")),
    Index(
        "jobs_once_suspended",
        "ended_at",
        postgresql_where=text("(ended_at IS NOT NULL) AND (suspended_time > interval '0')"),
    ),
    Index(
        "jobs_named_runs",
        "user_name",
        "job_name",
        "ended_at",
        postgresql_where=text("(started_at IS NOT NULL) AND (ended_at IS NOT NULL)"),
    ),
    Index("jobs_resubmit_of", "resubmit_of", postgresql_where=text("resubmit_of IS NOT NULL")),
    Index(
        "jobs_runs",
        "user_name",
        "ended_at",
        postgresql_where=text("(started_at IS NOT NULL) AND (ended_at IS NOT NULL)"),
    ),
    Index("jobs_submission", "submission_id"),
    Index(
        "jobs_throttled",
        "array_id",
        postgresql_where=text("(throttle IS NOT NULL) AND (state NOT IN ('Terminated', 'Error'))"),
    ),
    Index("jobs_unaccounted", "job_id", postgresql_where=text("(ended_at IS NOT NULL) AND (NOT accounted)")),
    Index("jobs_user", "user_name", "job_id"),
)

READ_BY_PASSES = tuple(
    column.name for column in jobs.columns if column.info["read_by_passes"] or column.name in SEEN_COLUMNS
)
"""Columns of jobs whose change by hand is announced to passes, which read them."""


def of_job(meaning: str, *, key: bool = False, optional: bool = False) -> Column[Any]:
    """Return the column ``job_id`` of a table whose rows go when their job goes."""
    job = ForeignKey(jobs.c.job_id, ondelete="CASCADE")
    return column("job_id", BigInteger, meaning, job, key=key, optional=optional)


job_dependencies = table(
    "job_dependencies",
    "which job waits for which",
    of_job("the job that waits", key=True),
    column("required_job_id", BigInteger, "the job that must end first", ForeignKey(jobs.c.job_id), key=True),
    column(
        "outcome", Text, "how it must end: any, ok or notok", default="any", check="outcome IN ('any', 'ok', 'notok')"
    ),
    column(
        "earliest_edge",
        Text,
        "start or end: what of the required job the earliest start counts from; NULL: not before its end",
        optional=True,
        check="earliest_edge IN ('start', 'end')",
    ),
    column("earliest_shift", INTERVAL, "how long after that, negative for before", optional=True),
    column(
        "latest_edge",
        Text,
        "start or end: what of the required job the latest start counts from; NULL: no latest start",
        optional=True,
        check="latest_edge IN ('start', 'end')",
    ),
    column("latest_shift", INTERVAL, "how long after that, negative for before", optional=True),
    rule("earliest_whole", "(earliest_edge IS NULL) = (earliest_shift IS NULL)"),
    rule("latest_whole", "(latest_edge IS NULL) = (latest_shift IS NULL)"),
    rule("job_dependencies_check", "job_id <> required_job_id"),
    Index("job_dependencies_required", "required_job_id"),
)

job_keys = table(
    "job_keys",
    "the SSH keys of live jobs (oarsub -k); for the nodes of the job and nobody else",
    column("job_id", BigInteger, "the job; its key goes when it is over", key=True),
    column("public_key", Text, "kind and content of the public half"),
    column("private_key", Text, "the private half, as OpenSSH writes it"),
    Index("job_keys_public", "public_key"),
)

job_state_logs = table(
    "job_state_logs",
    "every state of every job; written by triggers",
    of_job("the job"),
    column("state", Text, "the state", ForeignKey(job_states.c.state)),
    column("previous_state", Text, "where it came from, NULL at submission", optional=True),
    column("during", TSTZRANGE, "when it was in it, open while it is"),
    ForeignKeyConstraint(["previous_state", "state"], [job_transitions.c.from_state, job_transitions.c.to_state]),
    Index("job_state_logs_job", "job_id"),
    # the present state of live jobs; a final state is open for ever and need not be found again
    Index(
        "job_state_logs_open",
        "job_id",
        unique=True,
        postgresql_where=text("upper_inf(during) AND (state NOT IN ('Terminated', 'Error'))"),
    ),
)
