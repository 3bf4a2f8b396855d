"""Where waiting jobs were moved, and what that was to gain."""

from __future__ import annotations

from collections.abc import Iterable

from oarpy.client.rendering import JsonValue, local_date, one_line
from oarpy.store.grid.reallocation_passes import GridMoveRow


def text(moves: Iterable[GridMoveRow]) -> str:
    """Return a line for each move."""
    return "".join(f"{line(move)}\n" for move in moves)


def line(move: GridMoveRow) -> str:
    """Return a move for people."""
    ends = f"expected end {_end(move.old_end)} there, {_end(move.new_end)} here"
    message = f" ({one_line(move.message)})" if move.message else ""
    return f"{local_date(move.at)} job {move.job}: {move.source} -> {move.target}, {ends}: {move.outcome}{message}"


def record(move: GridMoveRow) -> dict[str, JsonValue]:
    """Return a move for programs; dates are epoch seconds, ``old`` and ``new`` expected ends, null: never."""
    return {
        "at": move.at,
        "job": move.job,
        "from": move.source,
        "to": move.target,
        "old": move.old_end,
        "new": move.new_end,
        "outcome": move.outcome,
        "message": move.message,
        "pass": move.pass_id,
    }


def _end(seconds: float | None) -> str:
    return local_date(seconds) or "never"
