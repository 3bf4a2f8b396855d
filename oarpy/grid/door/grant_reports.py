"""Grants as people and programs read them."""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.client.rendering import Column, JsonValue, Table
from oarpy.model.durations import format_duration
from oarpy.store.grid.grants import GrantRow

_TITLES = ("Broker", "Its user", "Account", "Queues", "Resources", "Walltime", "Granted by")


def record(row: GrantRow) -> JsonValue:
    """Return a grant for JSON; walltime in seconds."""
    return {
        "broker": row.broker,
        "broker_user": row.broker_user,
        "user": row.local_user,
        "queues": list(row.queues),
        "resources": row.most_resources,
        "walltime": row.longest_walltime,
        "granted_by": row.granted_by,
    }


def sentence(row: GrantRow) -> str:
    """Return a grant as a sentence."""
    return f"broker '{row.broker}' acts for its user '{row.broker_user}' as '{row.local_user}'"


def table(rows: Sequence[GrantRow]) -> str:
    """Return a line a grant; ``-`` stands for no limit."""
    return Table(tuple(map(Column, _TITLES)), tuple(map(_cells, rows))).text()


def _cells(row: GrantRow) -> tuple[str, ...]:
    longest = "-" if row.longest_walltime is None else format_duration(row.longest_walltime)
    most = "-" if row.most_resources is None else str(row.most_resources)
    return row.broker, row.broker_user, row.local_user, ",".join(row.queues) or "-", most, longest, row.granted_by
