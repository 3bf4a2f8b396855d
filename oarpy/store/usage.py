"""What users and projects used and asked for lately, from the accounting sums."""

from __future__ import annotations

from dataclasses import dataclass

from oarpy.store.database import Connection

# Windows that begin within the period: a range of the primary key, which begins with window_start.
_USAGE = """
    SELECT user_name, project,
           coalesce(sum(consumption) FILTER (WHERE consumption_type = 'USED'), 0)::float8,
           coalesce(sum(consumption) FILTER (WHERE consumption_type = 'ASKED'), 0)::float8
    FROM accounting WHERE window_start >= to_timestamp(%s) AND queue_name <> 'besteffort'
    GROUP BY user_name, project
"""


@dataclass(frozen=True, slots=True)
class UsageRow:
    """Resource-seconds of a user in a project."""

    user: str
    project: str
    used: float
    asked: float


def usage_since(connection: Connection, moment: float) -> list[UsageRow]:
    """Return the sums of the windows that began at ``moment`` (epoch seconds) or later, best-effort left out."""
    return [UsageRow(*row) for row in connection.execute(_USAGE, [moment])]
