"""The users for whom brokers may act on this cluster, and their limits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from oarpy.store.database import Connection

_COLUMNS = """
    broker, broker_user, local_user, queues, most_resources, extract(epoch FROM longest_walltime)::bigint, granted_by,
    granted_at
"""
_FIND = f"SELECT {_COLUMNS} FROM grid_grants WHERE broker = %s AND broker_user = %s"  # noqa: S608
_LIST = f"""
    SELECT {_COLUMNS} FROM grid_grants WHERE %(user)s::text IS NULL OR local_user = %(user)s
    ORDER BY broker, broker_user
"""  # noqa: S608
_GRANT = """
    INSERT INTO grid_grants
        (broker, broker_user, local_user, queues, most_resources, longest_walltime, granted_by, granted_at)
    VALUES (%s, %s, %s, %s, %s, make_interval(secs => %s), %s, now())
    ON CONFLICT (broker, broker_user) DO UPDATE SET
        local_user = excluded.local_user, queues = excluded.queues, most_resources = excluded.most_resources,
        longest_walltime = excluded.longest_walltime, granted_by = excluded.granted_by, granted_at = excluded.granted_at
"""
_REVOKE = "DELETE FROM grid_grants WHERE broker = %s AND broker_user = %s"
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('oarpy grant ' || %s || ' ' || %s, 0))"


class GrantRow(NamedTuple):
    """A broker may act for its user as a local one. Walltime in seconds; no queue: all, None: no limit."""

    broker: str
    broker_user: str
    local_user: str
    queues: Sequence[str]
    most_resources: int | None
    longest_walltime: int | None
    granted_by: str
    granted_at: datetime | None = None


def find(connection: Connection, broker: str, user: str, *, lock: bool = False) -> GrantRow | None:
    """Return the grant of a broker for its user; with ``lock`` no other session changes it in this transaction."""
    if lock:
        connection.execute(_LOCK, (broker, user))
    row = connection.execute(_FIND, (broker, user)).fetchone()
    return None if row is None else GrantRow(*row)


def grants(connection: Connection, local_user: str | None = None) -> list[GrantRow]:
    """Return the grants for a local user, or all of them."""
    return [GrantRow(*row) for row in connection.execute(_LIST, {"user": local_user})]


def grant(connection: Connection, row: GrantRow) -> None:
    """Add a grant; it replaces the grant of the same broker and user."""
    values = list(row[:-1])
    values[3] = list(row.queues)
    connection.execute(_GRANT, values)


def revoke(connection: Connection, broker: str, user: str) -> None:
    """Take a grant back."""
    connection.execute(_REVOKE, (broker, user))
