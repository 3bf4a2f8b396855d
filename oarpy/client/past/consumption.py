"""``oarstat --accounting``: what users asked for and used in a period."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict

from oarpy.client.rendering import Column, Table, elapsed, local_date
from oarpy.store.accounting import ConsumptionRow

_DAY = 86400


class ConsumptionDocument(TypedDict):
    """What a user asked for and used in a project, in resource-seconds; dates in epoch seconds."""

    user: str
    project: str
    asked: int
    used: int
    window_start: float
    window_stop: float


def document(rows: Sequence[ConsumptionRow]) -> list[ConsumptionDocument]:
    """Return an object for each user and project."""
    return [
        {
            "user": row.user,
            "project": row.project,
            "asked": row.asked,
            "used": row.used,
            "window_start": row.first,
            "window_stop": row.last,
        }
        for row in rows
    ]


def table(rows: Sequence[ConsumptionRow]) -> str:
    """Return a line for each user and project."""
    columns = (
        Column("User", 14),
        Column("Project", 14),
        Column("First window starts", 19),
        Column("Last window ends", 19),
        Column("Asked (seconds)"),
        Column("Used (seconds)"),
    )
    cells = (
        (row.user, row.project, local_date(row.first), local_date(row.last), str(row.asked), str(row.used))
        for row in rows
    )
    return Table(columns, tuple(cells)).text()


def summary(rows: Sequence[ConsumptionRow], user: str, begin: datetime, end: datetime) -> str:
    """Return the sums of one user, then the sums of each of the user's projects."""
    title = f"Usage summary for user '{user}' from {local_date(begin.timestamp())} to {local_date(end.timestamp())}:"
    lines = [
        title,
        "-" * len(title),
        f"Start of the first window: {local_date(min((row.first for row in rows), default=None))}".rstrip(),
        f"End of the last window: {local_date(max((row.last for row in rows), default=None))}".rstrip(),
        f"Asked consumption: {_amount(sum(row.asked for row in rows))}",
        f"Used consumption: {_amount(sum(row.used for row in rows))}",
        "By project consumption:",
    ]
    for row in rows:
        lines += [f"  {row.project}:", f"    Asked: {_amount(row.asked)}", f"    Used: {_amount(row.used)}"]
    return "\n".join(lines) + "\n"


def _amount(seconds: int) -> str:
    return f"{seconds} ({seconds // _DAY} days {elapsed(seconds % _DAY)})"
