"""``oarstat --accounting``: the requested and used time of users in a period."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeAlias, TypedDict

from oarpy.client.rendering import Column, Table, elapsed, local_date
from oarpy.configuration import AccountingSettings
from oarpy.model.billing import CORE, GPU, Kind, billing_units
from oarpy.store.accounting import ConsumptionRow

_DAY = 86400


class ConsumptionDocument(TypedDict):
    """The requested and the used time of a user in a project: resource-seconds, GPU-seconds; dates in epoch seconds.

    ``billed`` are billing units of the time used, in hours.
    """

    user: str
    project: str
    asked: int
    used: int
    gpu_asked: int
    gpu_used: int
    billed: float
    window_start: float
    window_stop: float


Weights: TypeAlias = Mapping[Kind, float]


def billed(row: ConsumptionRow, weights: Weights) -> float:
    """Return the billing units of the time used, in hours."""
    return billing_units(weights, {CORE: row.used, GPU: row.gpu_used, **row.amounts}) / 3600


def document(rows: Sequence[ConsumptionRow], weights: Weights) -> list[ConsumptionDocument]:
    """Return an object for each user and project."""
    return [
        {
            "user": row.user,
            "project": row.project,
            "asked": row.asked,
            "used": row.used,
            "gpu_asked": row.gpu_asked,
            "gpu_used": row.gpu_used,
            "billed": round(billed(row, weights), 6),
            "window_start": row.first,
            "window_stop": row.last,
        }
        for row in rows
    ]


def table(rows: Sequence[ConsumptionRow], weights: Weights) -> str:
    """Return a line for each user and project; with more columns where there are GPUs, or weights."""
    columns = (
        Column("User", 14),
        Column("Project", 14),
        Column("First window starts", 19),
        Column("Last window ends", 19),
        Column("Asked (seconds)"),
        Column("Used (seconds)"),
        Column("GPUs asked (seconds)"),
        Column("GPUs used (seconds)"),
        Column("Billed (hours)"),
    )
    cells = [
        (
            row.user,
            row.project,
            local_date(row.first),
            local_date(row.last),
            *map(str, (row.asked, row.used, row.gpu_asked, row.gpu_used)),
            f"{billed(row, weights):.2f}",
        )
        for row in rows
    ]
    shown = len(columns) if _is_weighed(rows, weights) else len(columns) - 3
    return Table(columns[:shown], tuple(row[:shown] for row in cells)).text()


def _is_weighed(rows: Sequence[ConsumptionRow], weights: Weights) -> bool:
    """Tell whether hours of cores alone do not tell everything."""
    return any(row.gpu_asked or row.gpu_used for row in rows) or weights != AccountingSettings().weights


def summary(rows: Sequence[ConsumptionRow], weights: Weights, user: str, begin: datetime, end: datetime) -> str:
    """Return the sums of one user, then the sums of each of the user's projects."""
    title = f"Usage summary for user '{user}' from {local_date(begin.timestamp())} to {local_date(end.timestamp())}:"
    weighed = _is_weighed(rows, weights)
    lines = [
        title,
        "-" * len(title),
        f"Start of the first window: {local_date(min((row.first for row in rows), default=None))}".rstrip(),
        f"End of the last window: {local_date(max((row.last for row in rows), default=None))}".rstrip(),
        f"Asked consumption: {_amount(sum(row.asked for row in rows))}",
        f"Used consumption: {_amount(sum(row.used for row in rows))}",
        *(_of_gpus(rows, weights, "", " consumption") if weighed else ()),
        "By project consumption:",
    ]
    for row in rows:
        lines += [f"  {row.project}:", f"    Asked: {_amount(row.asked)}", f"    Used: {_amount(row.used)}"]
        lines += _of_gpus([row], weights, "    ") if weighed else ()
    return "\n".join(lines) + "\n"


def _of_gpus(rows: Sequence[ConsumptionRow], weights: Weights, indent: str, what: str = "") -> list[str]:
    return [
        f"{indent}GPUs asked{what}: {_amount(sum(row.gpu_asked for row in rows))}",
        f"{indent}GPUs used{what}: {_amount(sum(row.gpu_used for row in rows))}",
        f"{indent}Billed{what}: {sum(billed(row, weights) for row in rows):.2f} hours",
    ]


def _amount(seconds: int) -> str:
    return f"{seconds} ({seconds // _DAY} days {elapsed(seconds % _DAY)})"
