"""Advance reservations that are not over."""

from __future__ import annotations

from dataclasses import dataclass

from oarpy.store.database import Connection
from oarpy.store.rows import read

# Resources of reservations that were accepted, or that hold them already.
_RESERVATIONS = """
    SELECT j.job_id, j.job_name AS name, j.user_name AS user, j.queue_name AS queue, j.state,
           j.reservation_state = 'Scheduled' AS accepted, extract(epoch FROM j.reservation_start)::float8 AS begin,
           extract(epoch FROM j.reservation_start + coalesce(j.walltime, m.walltime))::float8 AS end,
           cells.nodes, coalesce(cells.cores, 0)::int AS cores
    FROM jobs j
        LEFT JOIN LATERAL (SELECT min(walltime) AS walltime FROM moldable_descriptions d
                           WHERE d.submission_id = j.submission_id AND d.position = 0) m ON true
        LEFT JOIN LATERAL (
            SELECT array_agg(DISTINCT r.network_address ORDER BY r.network_address) AS nodes, count(*) AS cores
            FROM (SELECT resource_id FROM reserved_resources v WHERE v.job_id = j.job_id
                  UNION SELECT resource_id FROM assigned_resources a
                  WHERE a.job_id = j.job_id AND (upper_inf(a.during) OR a.suspended)) AS own
                JOIN resources r USING (resource_id)
            WHERE r.type = 'default') cells ON true
    WHERE is_live(j.state) AND j.reservation_start IS NOT NULL
    ORDER BY j.reservation_start, j.job_id LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class ReservationRow:
    """A reservation from ``begin`` to ``end`` (epoch seconds); not ``accepted``: it waits for its answer.

    ``nodes`` are None before it has any.
    """

    job_id: int
    name: str
    user: str
    queue: str
    state: str
    accepted: bool
    begin: float
    end: float
    nodes: tuple[str, ...] | None
    cores: int


def reservations(connection: Connection, limit: int) -> list[ReservationRow]:
    """Return the reservations with the earliest dates."""
    return read(connection, _RESERVATIONS, ReservationRow, [limit])
