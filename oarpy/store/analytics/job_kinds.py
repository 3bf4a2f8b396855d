"""The use of jobs of a kind, by the day of their end; accounting counts it (:mod:`oarpy.store.accounting`)."""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

from oarpy.store.database import Connection

Use: TypeAlias = "tuple[int, float, float | None, int | None]"
"""The number of jobs, and the most they used: seconds, cores busy on average and bytes; None for unmeasured amounts."""
DAYS = 30
"""How many days past jobs of a kind are looked at, and kept."""


# One look by the primary key. A job that failed shows the least that was needed, and no more.
_USE = """
    SELECT sum(jobs)::bigint, max(run_seconds), max(busy_cores), max(memory_peak)
    FROM job_kinds WHERE kind = %(kind)s AND day > current_date - %(days)s
    HAVING sum(jobs) >= %(fewest)s
       AND coalesce(max(considered_at), '-infinity') < now() - %(pause)s * interval '1 second'
"""

# A session that finds the row locked leaves it: another session considers the kind, or counts a job of it.
_CONSIDER = """
    UPDATE job_kinds SET considered_at = now()
    WHERE (kind, day) IN (
        SELECT kind, day FROM job_kinds WHERE kind = %s ORDER BY day DESC LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)
"""

_PRUNE = "DELETE FROM job_kinds WHERE day < %s::date"


def use(connection: Connection, kind: int, fewest: int, pause: float) -> Use | None:
    """Return the use of a kind, if ``fewest`` jobs succeeded and none considered it in the last ``pause`` seconds."""
    cursor = connection.execute(_USE, {"kind": kind, "days": DAYS, "fewest": fewest, "pause": pause})
    row: Use | None = cursor.fetchone()
    return row


def consider(connection: Connection, kind: int) -> bool:
    """Note that the use of a kind is considered now; return False if another process is doing it."""
    return connection.execute(_CONSIDER, [kind]).rowcount > 0


def prune(connection: Connection, horizon: datetime) -> int:
    """Remove the use of days before ``horizon``; return the number of removed rows."""
    return connection.execute(_PRUNE, [horizon]).rowcount
