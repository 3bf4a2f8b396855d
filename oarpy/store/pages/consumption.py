"""Consumption by day and by user, project or queue: the data of plots of accounting."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from psycopg.sql import SQL, Identifier

from oarpy.store.database import Connection

Kind = Literal["user", "project", "queue"]

_COLUMNS: dict[Kind, str] = {"user": "user_name", "project": "project", "queue": "queue_name"}

_DAYS = """
    SELECT extract(epoch FROM date_trunc('day', window_start, 'UTC'))::bigint, {name},
           coalesce(sum(consumption) FILTER (WHERE consumption_type = 'USED'), 0)::float8,
           coalesce(sum(consumption) FILTER (WHERE consumption_type = 'ASKED'), 0)::float8
    FROM accounting WHERE window_start >= %s AND window_start < %s
    GROUP BY 1, 2 ORDER BY 1, 3 DESC
"""


@dataclass(frozen=True, slots=True)
class DaySum:
    """Resource-seconds of ``name`` on the day (UTC) that begins at ``day`` (epoch seconds)."""

    day: int
    name: str
    used: float
    asked: float


def days(connection: Connection, begin: datetime, end: datetime, kind: Kind) -> tuple[DaySum, ...]:
    """Return the sums of the windows that begin from ``begin`` to before ``end``."""
    query = SQL(_DAYS).format(name=Identifier(_COLUMNS[kind]))
    return tuple(DaySum(*row) for row in connection.execute(query, [begin, end]).fetchall())
