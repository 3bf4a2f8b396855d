"""Maintenance windows of nodes: planned, listed, cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from oarpy.store.database import Connection


@dataclass(frozen=True, slots=True)
class WindowRow:
    """A window from ``begin`` to ``end`` (epoch seconds); ``cancelled_by`` is None while it holds."""

    window: int
    nodes: tuple[str, ...]
    begin: float
    end: float
    reason: str
    author: str
    planned_at: float
    cancelled_by: str | None
    cancelled_at: float | None


_PLAN = """
    WITH planned AS (
        INSERT INTO maintenance_windows (during, reason, author)
        VALUES (tstzrange(%(begin)s, %(end)s), %(reason)s, %(author)s) RETURNING window_id
    )
    INSERT INTO maintenance_nodes (window_id, network_address)
    SELECT window_id, name FROM planned, unnest(%(nodes)s::text[]) AS name
    RETURNING window_id
"""

_WINDOWS = """
    SELECT w.window_id, array_agg(m.network_address ORDER BY m.network_address),
           extract(epoch FROM lower(w.during))::float8, extract(epoch FROM upper(w.during))::float8,
           w.reason, w.author, extract(epoch FROM w.planned_at)::float8,
           w.cancelled_by, extract(epoch FROM w.cancelled_at)::float8
    FROM maintenance_windows w JOIN maintenance_nodes m USING (window_id)
    WHERE {wanted}
    GROUP BY w.window_id
    ORDER BY lower(w.during), w.window_id
"""
# By the index of valid windows: past windows cost nothing.
_VALID = "w.cancelled_at IS NULL AND w.during && tstzrange(now(), NULL)"
_OF_IDS = "w.window_id = ANY(%s)"

_CANCEL = """
    UPDATE maintenance_windows SET cancelled_by = %s, cancelled_at = now()
    WHERE window_id = ANY(%s) AND cancelled_at IS NULL AND upper(during) > now()
    RETURNING window_id
"""

# The jobs that run on the nodes and may still run when the window begins, and the reservations that it crosses.
_CROSSED = """
    SELECT DISTINCT a.job_id
    FROM resources r JOIN assigned_resources a ON a.resource_id = r.resource_id AND (upper_inf(a.during) OR a.suspended)
        JOIN jobs j ON j.job_id = a.job_id
    WHERE r.network_address = ANY(%(nodes)s) AND is_live(j.state)
      AND coalesce(expected_end(j), now() + j.walltime) > %(begin)s
    UNION
    SELECT a.job_id FROM resources r JOIN reserved_resources a USING (resource_id)
    WHERE r.network_address = ANY(%(nodes)s) AND a.during && tstzrange(%(begin)s, %(end)s)
    ORDER BY job_id
"""


def plan(
    connection: Connection, nodes: Sequence[str], period: tuple[datetime, datetime], reason: str, author: str
) -> int:
    """Plan a window for ``nodes``, at least one, and return its number."""
    values = {"nodes": list(nodes), "begin": period[0], "end": period[1], "reason": reason, "author": author}
    row = connection.execute(_PLAN, values).fetchone()
    assert row is not None
    return int(row[0])


def crossed(connection: Connection, nodes: Sequence[str], period: tuple[datetime, datetime]) -> tuple[int, ...]:
    """Return the jobs on ``nodes`` that may run when such a window begins, and reservations that it crosses."""
    rows = connection.execute(_CROSSED, {"nodes": list(nodes), "begin": period[0], "end": period[1]})
    return tuple(job for (job,) in rows)


def valid(connection: Connection) -> tuple[WindowRow, ...]:
    """Return the windows that are under way or to come, in their order."""
    return _read(connection, _VALID, ())


def numbered(connection: Connection, windows: Sequence[int]) -> tuple[WindowRow, ...]:
    """Return the windows of these numbers, including windows that are over or cancelled."""
    return _read(connection, _OF_IDS, (list(windows),))


def cancel(connection: Connection, windows: Sequence[int], user: str) -> tuple[int, ...]:
    """Cancel the windows among these that are not over; return them."""
    return tuple(sorted(row[0] for row in connection.execute(_CANCEL, (user, list(windows)))))


def _read(connection: Connection, wanted: str, values: Sequence[object]) -> tuple[WindowRow, ...]:
    return tuple(
        WindowRow(number, tuple(nodes), *rest)
        for number, nodes, *rest in connection.execute(_WINDOWS.format(wanted=wanted), list(values)).fetchall()
    )
