"""What a replay of the past reads: jobs that have ended, what they asked for, and what some of them held."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from oarpy.store.database import Connection

# Whoever was in the system at some moment of the period: an index range on the end, for the period's begin.
_ENDED = """
    SELECT j.job_id, j.submission_id, j.user_name, j.project, j.queue_name, j.job_name, j.types, j.properties,
           extract(epoch FROM j.submitted_at)::float8, extract(epoch FROM j.started_at)::float8,
           extract(epoch FROM j.ended_at)::float8, extract(epoch FROM j.walltime)::float8,
           extract(epoch FROM j.reservation_start)::float8, m.position,
           j.state = 'Terminated' AND coalesce(j.exit_status, 0) = 0, extract(epoch FROM j.checkpoint)::float8,
           j.nice
    FROM jobs j LEFT JOIN moldable_descriptions m USING (moldable_id)
    WHERE j.ended_at IS NOT NULL AND (%(since)s::timestamptz IS NULL OR j.ended_at > %(since)s)
        AND (%(until)s::timestamptz IS NULL OR j.submitted_at < %(until)s)
    ORDER BY j.submitted_at, j.job_id
"""

_HELD = """
    SELECT job_id, array_agg(resource_id ORDER BY resource_id) FROM assigned_resources
    WHERE job_id = ANY(%s) GROUP BY job_id
"""

_RECORDS = "SELECT submission_id, request FROM submissions WHERE submission_id = ANY(%s)"


@dataclass(frozen=True, slots=True)
class EndedRow:
    """A job that has ended. Instants are epoch seconds, durations seconds; ``position`` counts alternatives from 0.

    ``started``, ``walltime`` and ``position`` are None for one that never ran.
    """

    id: int
    submission: int
    user: str
    project: str
    queue: str
    name: str
    types: tuple[str, ...]
    properties: str
    submitted: float
    started: float | None
    ended: float
    walltime: float | None
    reservation: float | None
    position: int | None
    succeeded: bool
    checkpoint: float = 0
    nice: int = 0


def ended(connection: Connection, since: datetime | None, until: datetime | None) -> list[EndedRow]:
    """Return the jobs that ended after ``since`` and were submitted before ``until``, in order of submission."""
    found = connection.execute(_ENDED, {"since": since, "until": until}, binary=True)
    return [
        EndedRow(job, submission, user, project, queue, name, tuple(types), *rest)
        for job, submission, user, project, queue, name, types, *rest in found
    ]


def held(connection: Connection, jobs: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """Return the ids of the resources that each of ``jobs`` held."""
    return {job: tuple(resources) for job, resources in connection.execute(_HELD, [list(jobs)])}


def records(connection: Connection, submissions: Iterable[int]) -> dict[int, dict[str, object]]:
    """Return the submissions as the admission rules first saw them."""
    return dict(connection.execute(_RECORDS, [list(submissions)]).fetchall())
