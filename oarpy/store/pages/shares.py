"""The shares of the cluster: queues with their jobs, and the fair share of users and projects."""

from __future__ import annotations

from dataclasses import dataclass

from oarpy.store.database import Connection

_QUEUES = """
    SELECT q.queue_name, count(*) FILTER (WHERE j.state IN ('Waiting', 'toAckReservation')),
           count(*) FILTER (WHERE j.state = 'Hold'), count(*) FILTER (WHERE s.holding),
           coalesce(sum(held.cells) FILTER (WHERE s.holding), 0)::bigint
    FROM queues q JOIN jobs j ON j.queue_name = q.queue_name AND is_live(j.state) JOIN job_states s USING (state)
        LEFT JOIN (SELECT job_id, count(*) AS cells FROM assigned_resources WHERE upper_inf(during)
                   GROUP BY job_id) held USING (job_id)
    GROUP BY q.queue_name
"""
_SHARES = "SELECT kind, name, used_seconds, used_share, asked_share, target, karma FROM oar_report.karma ORDER BY karma"


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """How many jobs of a queue wait, are held back and hold ``cells``."""

    waiting: int
    held: int
    running: int
    cells: int


@dataclass(frozen=True, slots=True)
class Share:
    """The use of a user or project (``kind``) in resource-seconds; shares and target are parts of all, 0 to 1."""

    kind: str
    name: str
    used_seconds: float
    used_share: float
    asked_share: float
    target: float
    karma: float


def queue_loads(connection: Connection) -> dict[str, QueueLoad]:
    """Return the load of each queue that is not empty."""
    return {row[0]: QueueLoad(*row[1:]) for row in connection.execute(_QUEUES).fetchall()}


def shares(connection: Connection) -> tuple[Share, ...]:
    """Return the fair share as the scheduler computes it; the user who is served first comes first."""
    return tuple(Share(*row) for row in connection.execute(_SHARES).fetchall())


_WINDOW = "SELECT extract(epoch FROM karma_window)::float8 FROM scheduling_passes"


def window(connection: Connection) -> float:
    """Return how far back fair share looks, in seconds."""
    row = connection.execute(_WINDOW).fetchone()
    return 0.0 if row is None else float(row[0])
