"""Hosts that jobs have freed, and that are kept back for a moment so that applications can ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oarpy.store.database import Connection

_KEPT = """
    SELECT g.job_id, extract(epoch FROM g.made_at)::float8, extract(epoch FROM g.until)::float8, g.owed_by,
           g.owed_since,
           ARRAY(SELECT n FROM unnest(g.resources) AS part, generate_series(lower(part), upper(part) - 1) AS n),
           j.queue_name, j.project
    FROM ghosts g JOIN jobs j USING (job_id) ORDER BY g.made_at, g.job_id
"""

# No application waits for resources of best-effort jobs. A job that held nothing frees nothing.
_FREED_SINCE = """
    SELECT j.job_id, extract(epoch FROM j.started_at + j.walltime + j.suspended_time)::float8,
           array_agg(a.resource_id), j.queue_name, j.project
    FROM jobs j JOIN assigned_resources a USING (job_id)
    WHERE j.ended_at > {} AND j.started_at IS NOT NULL AND j.queue_name <> 'besteffort'
      AND NOT 'besteffort' = ANY(j.types) AND upper(a.during) >= j.ended_at - interval '1 second'
    GROUP BY j.job_id ORDER BY j.job_id
"""
_FREED = _FREED_SINCE.format("to_timestamp(%s)")
_FREED_LATELY = _FREED_SINCE.format("(SELECT at FROM scheduling_passes)")

_FORGET = "DELETE FROM ghosts WHERE NOT job_id = ANY(%s)"
_STORE = """
    INSERT INTO ghosts (job_id, made_at, until, resources, owed_by, owed_since)
    VALUES (%s, to_timestamp(%s), to_timestamp(%s), %s::int4multirange, %s, %s)
    ON CONFLICT (job_id) DO UPDATE SET resources = excluded.resources, owed_by = excluded.owed_by,
        owed_since = excluded.owed_since
"""


@dataclass(frozen=True, slots=True)
class GhostRow:
    """The resources that job ``of`` has left, and the jobs that owe an answer to a view. Instants are epoch seconds.

    ``queue`` and ``project`` are those of the job.
    """

    of: int
    made: float
    until: float
    owed_by: Sequence[int]
    owed_since: Sequence[int]
    resources: Sequence[int]
    queue: str
    project: str


@dataclass(frozen=True, slots=True)
class FreedRow:
    """The resources of job ``of`` when it ended, and until when it might have held them (epoch seconds)."""

    of: int
    end: float
    resources: Sequence[int]
    queue: str
    project: str


def kept(connection: Connection) -> list[GhostRow]:
    """Return the ghosts, the first made first."""
    return [GhostRow(*row) for row in connection.execute(_KEPT).fetchall()]


def freed(connection: Connection, since: float) -> list[FreedRow]:
    """Return the resources left by jobs that ended after an instant."""
    return [FreedRow(*row) for row in connection.execute(_FREED, [since]).fetchall()]


def freed_lately(connection: Connection) -> list[FreedRow]:
    """Return the resources left by jobs that ended after the last pass."""
    return [FreedRow(*row) for row in connection.execute(_FREED_LATELY).fetchall()]


def keep(connection: Connection, ghosts: Sequence[tuple[int, float, float, str, list[int], list[int]]]) -> None:
    """Keep exactly these ghosts: job, made, until, resources as a multirange, viewers, and views they must answer."""
    connection.execute(_FORGET, [[ghost[0] for ghost in ghosts]])
    if ghosts:
        connection.cursor().executemany(_STORE, ghosts)
