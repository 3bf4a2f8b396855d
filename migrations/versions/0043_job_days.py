"""Jobs are counted by the day of their end, for reports: how many, how they waited, what gave way in vain.

Revision ID: 0043
"""

from __future__ import annotations

from alembic import context, op
from sqlalchemy import BigInteger, CheckConstraint, Column, Date, Double, Text

from oarpy.store.schema.statements import make

revision = "0043"
down_revision = "0042"

_VIEWS = ("besteffort_waste", "daily_jobs", "failures", "utilisation")
_KEY = {
    "day": (Date, "the day in UTC"),
    "user_name": (Text, "the user"),
    "project": (Text, "the project"),
    "queue_name": (Text, "the queue"),
}
_SUMS = {
    "jobs": (BigInteger, "how many ended"),
    "failed": (BigInteger, "of these in Error, or with another exit status than 0"),
    "started": (BigInteger, "of these had started"),
    "wait_seconds": (Double, "sum of the waits of those that had started"),
    "longest_wait": (Double, "the longest of these waits, seconds"),
    "slowdowns": (Double, "sum of their bounded slowdowns, with the bound of 10 seconds"),
    "gave_way": (BigInteger, "best-effort jobs that were ended for others"),
    "wasted_seconds": (Double, "resource-seconds that these had run"),
}
_FILL = """
    INSERT INTO job_days
    SELECT (ended_at AT TIME ZONE 'UTC')::date, user_name, project, queue_name, count(*),
           count(*) FILTER (WHERE state = 'Error' OR exit_status <> 0), count(waited), coalesce(sum(waited), 0),
           coalesce(max(waited), 0), coalesce(sum(greatest((waited + ran) / greatest(ran, 10), 1)), 0),
           count(wasted), coalesce(sum(wasted), 0)
    FROM (
        SELECT j.*, greatest(extract(epoch FROM started_at - submitted_at), 0) AS waited,
               extract(epoch FROM ended_at - started_at) AS ran,
               CASE WHEN EXISTS (SELECT FROM {schema}.kill_requests k
                                 WHERE k.job_id = j.job_id AND k.reason = 'besteffort') THEN
                   coalesce(extract(epoch FROM ended_at - started_at), 0) * (
                       SELECT count(*) FROM {schema}.assigned_resources a JOIN resources r USING (resource_id)
                       WHERE a.job_id = j.job_id AND r.type = 'default') END AS wasted
        FROM {schema}.jobs j WHERE accounted
    ) counted
    GROUP BY 1, 2, 3, 4
    ON CONFLICT (day, user_name, project, queue_name) DO UPDATE
        SET jobs = job_days.jobs + excluded.jobs, failed = job_days.failed + excluded.failed,
            started = job_days.started + excluded.started,
            wait_seconds = job_days.wait_seconds + excluded.wait_seconds,
            longest_wait = greatest(job_days.longest_wait, excluded.longest_wait),
            slowdowns = job_days.slowdowns + excluded.slowdowns, gave_way = job_days.gave_way + excluded.gave_way,
            wasted_seconds = job_days.wasted_seconds + excluded.wasted_seconds
"""


def _sound(name: str) -> str:
    """Return the condition on a sum: NaN comes after all numbers."""
    return f"({name} >= 0) AND ({name} BETWEEN -9007199254740992 AND 9007199254740992)"


def upgrade() -> None:
    """Create the table and the views over it, and count what is accounted already."""
    op.create_table(
        "job_days",
        *(Column(name, kind, primary_key=True, comment=meaning) for name, (kind, meaning) in _KEY.items()),
        *(Column(name, kind, nullable=False, comment=meaning) for name, (kind, meaning) in _SUMS.items()),
        CheckConstraint("isfinite(day)", name=op.f("job_days_day_check")),
        *(
            CheckConstraint(_sound(name) if kind is Double else f"{name} >= 0", name=op.f(f"job_days_{name}_check"))
            for name, (kind, _) in _SUMS.items()
        ),
        comment="jobs that ended on a day (UTC), by user, project and queue, counted when they are accounted",
    )
    for schema in ("public", "oar_past"):
        op.execute(_FILL.format(schema=schema))
    make(op.get_bind(), "views", *_VIEWS)


def downgrade() -> None:
    """Take them back."""
    for view in _VIEWS:
        op.execute(f"DROP VIEW IF EXISTS oar_report.{view}")
        context.config.attributes["views"].forget("oar_report", view)
    op.drop_table("job_days")
