"""Local jobs that may be ended to make room for parts of brokers."""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.model.job_types import BESTEFFORT
from oarpy.store.database import Connection
from oarpy.store.events import NewEvent, log
from oarpy.store.jobs.kill_requests import ask_once

# The latest start comes first. No job is chosen twice, and no part of a broker gives way to another part.
_GIVING_WAY = """
    SELECT j.job_id, array_agg(a.resource_id)
    FROM jobs j JOIN assigned_resources a ON a.job_id = j.job_id AND upper_inf(a.during)
    WHERE j.state = 'Running' AND (
            j.queue_name = ANY(%(queues)s) OR (%(besteffort)s AND (j.types @> %(types)s OR j.queue_name = %(word)s)))
      AND NOT EXISTS (SELECT FROM kill_requests k WHERE k.job_id = j.job_id AND k.state <> 'done')
      AND NOT EXISTS (SELECT FROM door_parts p WHERE p.job_id = j.job_id)
    GROUP BY j.job_id ORDER BY j.started_at DESC, j.job_id DESC
"""


def giving_way(connection: Connection, queues: Sequence[str], *, besteffort: bool) -> list[tuple[int, list[int]]]:
    """Return (job, its resources) of running jobs in ``queues``, and with ``besteffort`` of best-effort jobs.

    The jobs that started latest come first.
    """
    values = {"queues": list(queues), "besteffort": besteffort, "types": [BESTEFFORT], "word": BESTEFFORT}
    return connection.execute(_GIVING_WAY, values).fetchall()


def evict(connection: Connection, jobs: Sequence[int], reason: str) -> None:
    """Ask for the end of local jobs; their users see the reason."""
    to_kill = ask_once(connection, [(job, reason) for job in jobs], "door")
    log(connection, (NewEvent("EVICTED", reason, job) for job in to_kill))
