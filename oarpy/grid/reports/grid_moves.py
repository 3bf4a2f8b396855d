"""The moves of waiting jobs, and their expected gains. A move over several clusters is a shift or a remap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oarpy.client.rendering import JsonValue, local_date, one_line
from oarpy.store.grid.metajobs import ShiftRow
from oarpy.store.grid.reallocation_passes import GridMoveRow


def text(moves: Iterable[GridMoveRow], shifts: Iterable[ShiftRow]) -> str:
    """Return a line for each move."""
    return "".join(f"{move_line}\n" for move_line in (*map(line, moves), *map(shift_line, shifts)))


def line(move: GridMoveRow) -> str:
    """Return a move for people."""
    ends = f"expected end {_end(move.old_end)} there, {_end(move.new_end)} here"
    return f"{local_date(move.at)} job {move.job}: {move.source} -> {move.target}, {ends}: {_outcome(move)}"


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


def shift_line(shift: ShiftRow) -> str:
    """Return a move of a job over several clusters for people."""
    old = f"{_parts(shift.old_parts)} at {local_date(shift.old_start)}"
    new = f"{_parts(shift.new_parts)} at {local_date(shift.new_start)}"
    why = f"a job ended early on {shift.idle_on}, expected end {local_date(shift.new_end)}"
    moved = f"{shift.operation} {old} -> {new}, {why}: {_outcome(shift)}"
    return f"{local_date(shift.at)} job {shift.job}: {moved}"


def shift_record(shift: ShiftRow) -> dict[str, JsonValue]:
    """Return a move of a job over several clusters for programs; dates are epoch seconds, parts are by cluster."""
    return {
        "at": shift.at,
        "job": shift.job,
        "operation": shift.operation,
        "idle_on": shift.idle_on,
        "old": {"start": shift.old_start, "end": shift.old_end, "parts": dict(shift.old_parts)},
        "new": {"start": shift.new_start, "end": shift.new_end, "parts": dict(shift.new_parts)},
        "outcome": shift.outcome,
        "message": shift.message,
    }


def _outcome(move: GridMoveRow | ShiftRow) -> str:
    return move.outcome + (f" ({one_line(move.message)})" if move.message else "")


def _parts(parts: Mapping[str, int]) -> str:
    return ", ".join(f"{cluster} {procs}" for cluster, procs in sorted(parts.items()))


def _end(seconds: float | None) -> str:
    return local_date(seconds) or "never"
