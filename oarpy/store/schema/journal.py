"""The journal: events, notices, consumption, runs of scripts and modules."""

from __future__ import annotations

from sqlalchemy import BigInteger, Date, Double, ForeignKey, Identity, Index, Integer, Numeric, SmallInteger, Text, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from oarpy.store.schema.columns import CLOCK, INSTANT, NOW, TransactionNumber, column, rule, table
from oarpy.store.schema.grid.broker import grid_jobs
from oarpy.store.schema.jobs import of_job
from oarpy.store.schema.recurrence import recurring_jobs

event_logs = table(
    "event_logs",
    "what happened to jobs and nodes",
    column("event_id", BigInteger, "number of the event", Identity(always=True), key=True),
    column("at", INSTANT, "when", default=CLOCK),
    column("type", Text, "kind of event, in capitals", check="type ~ '^[A-Z][A-Z0-9_]*$'"),
    of_job("the job concerned, if any", optional=True),
    column("hosts", ARRAY(Text), "the nodes concerned", default="{}"),
    column("description", Text, "in words", default=""),
    column(
        "reason_data",
        JSONB,
        "the description for programs, of what a pass decided about a job",
        optional=True,
        check="jsonb_typeof(reason_data) = 'object'",
    ),
    Index("event_logs_at", "at"),
    Index("event_logs_job", "job_id", postgresql_where=text("job_id IS NOT NULL")),
)

# One row has the change of many jobs, nodes or events by one statement. Its key is what readers look for: see the guide
# of events. It refers to nothing, so that jobs may move to the past.
changes = table(
    "changes",
    "what the stream of events tells, for some time; written by triggers",
    column("transaction", TransactionNumber, "who wrote it", default=text("pg_current_xact_id()"), key=True),
    column("number", BigInteger, "order of what a reader finds new", Identity(always=True), key=True),
    column("at", INSTANT, "when", default=CLOCK),
    column("kind", Text, "of what", check="kind IN ('job', 'event', 'node', 'queue')"),
    column("ids", ARRAY(BigInteger), "numbers of the jobs, or of the rows of event_logs", default="{}"),
    column("names", ARRAY(Text), "nodes or queues", default="{}"),
    column("state", Text, "the state after it; of queues added, changed or removed", optional=True),
    column("previous_state", Text, "the state before it, if there was one", optional=True),
)

notices = table(
    "notices",
    "what users (--notify) and the admin are still to be told",
    column("notice_id", BigInteger, "number of the notice", Identity(always=True), key=True),
    of_job("the job whose user is told; without a job, grid job and recurring job the admin is told", optional=True),
    column(
        "tag",
        Text,
        "what kind of news",
        check="tag IN ('RUNNING', 'END', 'ERROR', 'INFO', 'SUSPENDED', 'RESUMING', 'MOVED', 'PROMISED', 'IMPROVED')",
    ),
    column("comment", Text, "the news in words"),
    column("at", INSTANT, "when it happened", default=CLOCK),
    column("attempts", SmallInteger, "how often telling it has failed", default=0, check="attempts BETWEEN 0 AND 1000"),
    column("due", INSTANT, "not to be tried before", default=NOW),
    column(
        "grid_job_id",
        BigInteger,
        "the grid job whose user is told",
        ForeignKey(grid_jobs.c.id, ondelete="CASCADE"),
        optional=True,
    ),
    column(
        "recurring_id",
        BigInteger,
        "the recurring job whose user is told",
        ForeignKey(recurring_jobs.c.recurring_id, ondelete="CASCADE"),
        optional=True,
    ),
    rule("notices_of_one_job", "num_nonnulls(job_id, grid_job_id, recurring_id) <= 1"),
    Index("notices_grid_job", "grid_job_id"),
    Index("notices_job", "job_id"),
    Index("notices_recurring_job", "recurring_id"),
)

accounting = table(
    "accounting",
    "consumption by window, user, project and queue",
    column("window_start", INSTANT, "begin of the window", key=True),
    column("window_stop", INSTANT, "its end", key=True),
    column("user_name", Text, "the user", key=True),
    column("project", Text, "the project", key=True),
    column("queue_name", Text, "the queue", key=True),
    column(
        "consumption_type",
        Text,
        "ASKED or USED; the same of GPUs, and of a consumable behind its name: memory_USED",
        key=True,
        check="consumption_type ~ '^(GPU_|[a-z_][a-z0-9_]*_)?(ASKED|USED)$'",
    ),
    column("consumption", Numeric, "resource-seconds, GPU-seconds, or amounts times seconds", check="consumption >= 0"),
    rule("accounting_check", "window_stop > window_start"),
)

# Reports of a month read this table instead of the jobs of the month; written with the sums of accounting.
job_days = table(
    "job_days",
    "jobs that ended on a day (UTC), by user, project and queue, counted when they are accounted",
    column("day", Date, "the day in UTC", key=True, check="isfinite(day)"),
    column("user_name", Text, "the user", key=True),
    column("project", Text, "the project", key=True),
    column("queue_name", Text, "the queue", key=True),
    column("jobs", BigInteger, "how many ended", check="jobs >= 0"),
    column("failed", BigInteger, "of these in Error, or with another exit status than 0", check="failed >= 0"),
    column("started", BigInteger, "of these had started", check="started >= 0"),
    column("wait_seconds", Double, "sum of the waits of those that had started", check="wait_seconds >= 0"),
    column("longest_wait", Double, "the longest of these waits, seconds", check="longest_wait >= 0"),
    column("slowdowns", Double, "sum of their bounded slowdowns, with the bound of 10 seconds", check="slowdowns >= 0"),
    column("gave_way", BigInteger, "best-effort jobs that were ended for others", check="gave_way >= 0"),
    column("wasted_seconds", Double, "resource-seconds that these had run", check="wasted_seconds >= 0"),
)

job_kinds = table(
    "job_kinds",
    "the most that jobs of a kind used, by the day of their end (UTC), counted when they are accounted",
    column("kind", BigInteger, "the kind, as submissions have it", key=True),
    column("day", Date, "the day in UTC", key=True, check="isfinite(day)"),
    column("jobs", BigInteger, "how many ended well", check="jobs >= 0"),
    column("run_seconds", Double, "the longest run of any, without suspensions", check="run_seconds >= 0"),
    column(
        "busy_cores",
        Double,
        "the most CPU seconds a second of run; NULL: not measured",
        optional=True,
        check="busy_cores >= 0",
    ),
    column(
        "memory_peak",
        BigInteger,
        "the most bytes on one node; NULL: not measured",
        optional=True,
        check="memory_peak >= 0",
    ),
    column("considered_at", INSTANT, "when its user was last to be proposed a better request", optional=True),
)

lost_jobs = table(
    "lost_jobs",
    "what nodes remember to have run, and the database has lost",
    column("job_id", BigInteger, "number of the job, which may stand for nothing here", key=True),
    column("attempt", Integer, "which attempt at it", key=True),
    column("network_address", Text, "the node, its first", key=True),
    column("generation", Integer, "the generation of the database that asked"),
    column("user_name", Text, "its user", optional=True),
    column("resources", Integer, "how many resources of type default it had on all its nodes"),
    column("began_at", INSTANT, "when it began, by the clock of the node", optional=True),
    column("ended_at", INSTANT, "when it ended; NULL: that is not known, or not yet", optional=True),
    column("exit_status", Integer, "wait status of its command", optional=True),
    column("outcome", Text, "how it ended, as the node says", default=""),
)

web_actions = table(
    "web_actions",
    "requests over the web that may have changed something: who, when, what, from where",
    column("action_id", BigInteger, "number of the action", Identity(always=True), key=True),
    column("at", INSTANT, "when it was about to be done", default=CLOCK),
    column("user_name", Text, "who asked for it; empty: nobody who could prove it", default=""),
    column(
        "source",
        Text,
        "how the user is known: a token, the session of a browser, the kernel (peer), or not at all",
        check="source IN ('token', 'session', 'peer', 'none')",
    ),
    column("token_id", BigInteger, "the token, which may be gone", optional=True),
    column("address", Text, "from where, as the process or its proxy saw it", default=""),
    column("method", Text, "POST, DELETE, ..."),
    column("path", Text, "what it was asked of"),
    column("detail", Text, "what was sent, but for secrets, commands and environments", default=""),
    column("status", Integer, "HTTP status of the answer; NULL: the process ended before", optional=True),
    Index("web_actions_at", "at"),
)

server_scripts = table(
    "server_scripts",
    "scripts that the server runs around jobs, while the jobs live",
    of_job("the job", key=True),
    column("attempt", Integer, "which attempt at it", key=True),
    column("kind", Text, "prologue or epilogue", key=True, check="kind IN ('prologue', 'epilogue')"),
    column("began_at", INSTANT, "when it was about to be run", default=CLOCK),
    column(
        "outcome",
        Text,
        "ok, failed, timeout, or lost (nobody saw it end); NULL: it runs, or the launcher that ran it is gone",
        optional=True,
        check="outcome IN ('ok', 'failed', 'timeout', 'lost')",
    ),
    column("detail", Text, "why it failed", default=""),
)

module_runs = table(
    "module_runs",
    "when each module last ran, for people",
    column("module", Text, "name of the module", key=True),
    column("at", INSTANT, "when", default=NOW),
    column("outcome", Text, "what it said", default=""),
    column("pid", Integer, "its process"),
    column("host", Text, "its machine"),
)

leads = table(
    "leads",
    "what the instance of a module that leads has locked",
    column("module", Text, "name of the module", key=True),
    column("lock", BigInteger, "number of its advisory lock; another one once a stranger holds it"),
)

past_months = table(
    "past_months",
    "the months that ended jobs were filed in; schema oar_past has their rows",
    column(
        "month", Date, "first day of the month", key=True, check="isfinite(month) AND (extract(day FROM month) = 1)"
    ),
    column("jobs", BigInteger, "how many jobs it has, or had when it was dropped", check="jobs >= 0"),
    column("first_job", BigInteger, "lowest number of a job that was ever filed in it"),
    column("last_job", BigInteger, "highest; no new job gets a number up to it"),
    column("archive", Text, "file that has the month as it is now", optional=True),
    column("archived_at", INSTANT, "when that was written", optional=True),
    column("dropped_at", INSTANT, "when its rows were dropped", optional=True),
    column(
        "counted_until",
        INSTANT,
        "when it was dropped: end of the last walltime of its jobs; sums of windows that begin before are not compared",
        optional=True,
    ),
    rule("archive_whole", "(archive IS NULL) = (archived_at IS NULL)"),
)
