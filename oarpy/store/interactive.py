"""How far an interactive job is, for the user who waits for it; which jobs of a user a shell can be opened in."""

from __future__ import annotations

from dataclasses import dataclass

from oarpy.model.job_types import NOOP
from oarpy.store.database import Connection


@dataclass(frozen=True, slots=True)
class Progress:
    """A job on its way; ``predicted`` is its start (epoch seconds) as the last scheduling pass saw it."""

    state: str
    message: str
    predicted: float | None


_PROGRESS = """
    SELECT j.state, j.message, extract(epoch FROM g.start_time)::float8
    FROM jobs j LEFT JOIN gantt_predictions g USING (job_id)
    WHERE j.job_id = %s
"""

_RUNNING = """
    SELECT job_id FROM jobs
    WHERE state = 'Running' AND user_name = %s AND NOT types && %s::text[]
    ORDER BY job_id
"""


def progress(connection: Connection, job_id: int) -> Progress | None:
    """Return how far a job is, None when it is not there (any more)."""
    row = connection.execute(_PROGRESS, [job_id]).fetchone()
    return None if row is None else Progress(*row)


def running_jobs(connection: Connection, user: str) -> list[int]:
    """Return the running jobs of a user that have processes on nodes."""
    return [job for (job,) in connection.execute(_RUNNING, [user, list(NOOP)])]
