"""The notices that users and the admin are still to get, as the notifier reads and settles them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from oarpy.store.database import Connection


@dataclass(frozen=True, slots=True)
class NoticeRow:
    """A piece of news; ``at`` in epoch seconds. Without a job, grid job or recurring job it is for the admin."""

    id: int
    job: int | None
    tag: str
    comment: str
    at: float
    attempts: int
    user: str
    name: str
    notify: str
    grid_job: int | None = None
    recurring_job: int | None = None

    @property
    def number(self) -> int | None:
        """Return the number of the job, of the grid job or of the recurring job."""
        if self.recurring_job is not None:
            return self.recurring_job
        return self.job if self.grid_job is None else self.grid_job

    @property
    def subject(self) -> str:
        """Return its subject: ``job 12`` or ``grid job 4``, empty when it is for the admin."""
        if self.recurring_job is not None:
            return f"recurring job {self.recurring_job}"
        if self.grid_job is not None:
            return f"grid job {self.grid_job}"
        return "" if self.job is None else f"job {self.job}"


# One user's crowd of notices does not come before the first one of another; one job's come in their order.
_DUE = """
    SELECT n.notice_id, n.job_id, n.tag, n.comment, extract(epoch FROM n.at)::float8, n.attempts,
           coalesce(j.user_name, g.user_name, r.user_name, ''),
           coalesce(j.job_name, g.job_name, r.submission ->> 'name', ''),
           coalesce(j.notify, g.notify, r.submission ->> 'notify', ''), n.grid_job_id, n.recurring_id
    FROM notices n LEFT JOIN jobs j USING (job_id) LEFT JOIN grid_jobs g ON g.id = n.grid_job_id
        LEFT JOIN recurring_jobs r USING (recurring_id)
    WHERE n.due <= now() AND NOT n.notice_id = ANY(%(busy)s)
      AND NOT coalesce(n.job_id = ANY(%(busy_jobs)s), false)
      AND NOT coalesce(n.grid_job_id = ANY(%(busy_grid_jobs)s), false)
      AND NOT coalesce(coalesce(j.user_name, g.user_name, r.user_name) = ANY(%(busy_users)s), false)
    ORDER BY row_number() OVER (PARTITION BY coalesce(j.user_name, g.user_name, r.user_name) ORDER BY n.notice_id),
             n.notice_id
    LIMIT %(limit)s
"""
_NEXT_DUE = "SELECT extract(epoch FROM min(due))::float8 FROM notices WHERE due > now()"
_REMOVE = "DELETE FROM notices WHERE notice_id = ANY(%s)"
_GIVE_UP = """
    WITH gone AS (DELETE FROM notices n USING unnest(%(notices)s::bigint[], %(types)s::text[], %(reasons)s::text[])
                      AS f (notice_id, type, reason)
                  WHERE n.notice_id = f.notice_id
                  RETURNING n.job_id, n.grid_job_id, n.recurring_id, n.tag, f.type, f.reason)
    INSERT INTO event_logs (type, job_id, description)
    SELECT type, job_id, concat('grid job ' || grid_job_id || ', ', 'recurring job ' || recurring_id || ', ',
                                'notice ', tag, ': ', reason)
    FROM gone
"""
_POSTPONE = """
    UPDATE notices SET attempts = attempts + 1, due = now() + make_interval(secs => %(delay)s * 2 ^ least(attempts, 12))
    WHERE notice_id = ANY(%(notices)s)
"""


def due(
    connection: Connection, busy: Collection[NoticeRow], busy_users: Collection[str], limit: int
) -> list[NoticeRow]:
    """Return the notices that can be sent now, without notices of the jobs of ``busy`` and of these users."""
    values = {
        "busy": [row.id for row in busy],
        "busy_jobs": [row.job for row in busy if row.job is not None],
        "busy_grid_jobs": [row.grid_job for row in busy if row.grid_job is not None],
        "busy_users": list(busy_users),
        "limit": limit,
    }
    return [NoticeRow(*row) for row in connection.execute(_DUE, values)]


def next_due(connection: Connection) -> float | None:
    """Return when (epoch seconds) the next notice that has failed before is to be tried, None when there is none."""
    row = connection.execute(_NEXT_DUE).fetchone()
    return None if row is None else row[0]


def remove(connection: Connection, notices: Sequence[int]) -> None:
    """Forget notices that were sent, or that no user wants."""
    if notices:
        connection.execute(_REMOVE, [list(notices)])


def give_up(connection: Connection, failures: Sequence[tuple[int, str, str]]) -> None:
    """Forget notices that cannot be sent; (notice, type of the event, reason) each."""
    if failures:
        notices, types, reasons = (list(column) for column in zip(*failures, strict=True))
        connection.execute(_GIVE_UP, {"notices": notices, "types": types, "reasons": reasons})


def postpone(connection: Connection, notices: Sequence[int], delay: float) -> None:
    """Try notices again after ``delay`` seconds, doubled for each of the first dozen earlier failures."""
    if notices:
        connection.execute(_POSTPONE, {"notices": list(notices), "delay": delay})
