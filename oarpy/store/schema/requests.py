"""Requests about existing jobs: to end them, signal them, suspend them, change their walltimes."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Identity, Index, SmallInteger, Text, text
from sqlalchemy.dialects.postgresql import INTERVAL

from oarpy.store.schema.columns import INSTANT, ME, NOW, column, table
from oarpy.store.schema.jobs import of_job

kill_requests = table(
    "kill_requests",
    "who is to be killed, and how far that is (OAR: frag_jobs)",
    of_job("the job", key=True),
    column("requested_at", INSTANT, "when", default=NOW),
    column("requested_by", Text, "by whom", default=ME),
    column("reason", Text, "why: oardel, walltime, besteffort, ...", default="oardel", check="reason <> ''"),
    column(
        "state",
        Text,
        "asked, decided by the canceller, done",
        default="asked",
        check="state IN ('asked', 'decided', 'done')",
    ),
    column(
        "not_before",
        INSTANT,
        "when the checkpoint that the job was asked for should be written; NULL: kill at once",
        optional=True,
    ),
    Index("kill_requests_open", "job_id", postgresql_where=text("state <> 'done'")),
)

signal_requests = table(
    "signal_requests",
    "signals to send to running jobs",
    column("request_id", BigInteger, "number of the request", Identity(always=True), key=True),
    of_job("the job"),
    column("signal", SmallInteger, "number of the signal", check="signal BETWEEN 1 AND 64"),
    column("requested_at", INSTANT, "when", default=NOW),
    column("requested_by", Text, "by whom", default=ME),
    column("done", Boolean, "whether it was sent", default=False),
    column(
        "elsewhere",
        Boolean,
        "whether the first node of the job has sent it already, at the time of the request",
        default=False,
    ),
    Index("signal_requests_elsewhere", "job_id", "requested_at", unique=True, postgresql_where=text("elsewhere")),
    Index("signal_requests_job", "job_id"),
    Index("signal_requests_open", "job_id", postgresql_where=text("NOT done")),
)

suspend_requests = table(
    "suspend_requests",
    "running jobs that are to be suspended",
    of_job("the job", key=True),
    column("requested_at", INSTANT, "when that was asked", default=NOW),
    column("requested_by", Text, "by whom", default=ME),
    column(
        "not_before",
        INSTANT,
        "when it is suspended at the earliest: a job that gives way has had a signal; NULL: as soon as possible",
        optional=True,
    ),
)

walltime_changes = table(
    "walltime_changes",
    "what oarwalltime asks for running jobs, and what they got",
    of_job("the job", key=True),
    column("pending", INTERVAL, "asked for and not granted yet; below 0: shorter", default="0"),
    column(
        "forced", Boolean, "what is pending needs to wait for neither the end of the job nor its turn", default=False
    ),
    column("whole", Boolean, "what is pending is granted all at once or not at all", default=False),
    column(
        "delay_next_jobs", Boolean, "what is pending may delay jobs that are predicted, not reserved", default=False
    ),
    column("requested_at", INSTANT, "when the last request was made", default=NOW),
    column("requested_by", Text, "by whom", default=ME),
    column("give_up_at", INSTANT, "when what is then still pending is dropped; NULL: never", optional=True),
    column("granted", INTERVAL, "sum of what was granted, with a sign", default="0"),
    column("granted_with_force", INTERVAL, "the part of it that was forced", default="0"),
    column("granted_with_whole", INTERVAL, "the part of it that was asked whole", default="0"),
    column("granted_with_delay_next_jobs", INTERVAL, "the part of it that was allowed to delay others", default="0"),
    column("node_told", Boolean, "whether the first node of the job enforces its present walltime", default=True),
    Index("walltime_changes_pending", "job_id", postgresql_where=text("pending <> interval '0'")),
    Index("walltime_changes_untold", "job_id", postgresql_where=text("NOT node_told")),
)
