"""The list of past reallocation passes, and requests for a pass now."""

from __future__ import annotations

from collections.abc import Iterable

from oarpy.client.rendering import Column, JsonValue, Table, local_date, one_line
from oarpy.client.session import Session
from oarpy.store.grid import reallocation_passes
from oarpy.store.grid.reallocation_passes import GridPassRow

_TITLES = ("Pass", "Asked by", "Began", "Ended", "Algorithm", "Heuristic", "Waiting", "Moved", "Message")


def start(session: Session) -> int:
    """Ask for a pass now; return its number. Admins only."""
    session.require_admin("start a reallocation pass")
    return reallocation_passes.ask(session.connection, session.user)


def table(rows: Iterable[GridPassRow]) -> Table:
    """Return passes for people."""
    return Table(tuple(map(Column, _TITLES)), tuple(map(_cells, rows)))


def record(row: GridPassRow) -> dict[str, JsonValue]:
    """Return a pass for programs; dates are epoch seconds."""
    return {
        "id": row.id,
        "asked_by": row.asked_by,
        "asked": row.asked,
        "began": row.began,
        "ended": row.ended,
        "algorithm": row.algorithm,
        "heuristic": row.heuristic,
        "waiting": row.waiting,
        "moved": row.moved,
        "message": row.message,
    }


def _cells(row: GridPassRow) -> tuple[str, ...]:
    return (
        str(row.id),
        row.asked_by or "its period",
        local_date(row.began) or "not yet",
        local_date(row.ended),
        "" if row.algorithm is None else str(row.algorithm),
        row.heuristic,
        str(row.waiting),
        str(row.moved),
        one_line(row.message),
    )
