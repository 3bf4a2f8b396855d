"""Reallocation passes, and the moves of waiting jobs that they decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oarpy.store.database import Connection


@dataclass(frozen=True, slots=True)
class GridPassRow:
    """A reallocation pass, made or asked for (``began`` None); times in epoch seconds."""

    id: int
    asked_by: str
    asked: float
    began: float | None
    ended: float | None
    algorithm: int | None
    heuristic: str
    waiting: int
    moved: int
    message: str


@dataclass(frozen=True, slots=True)
class GridMoveRow:
    """A move; times in epoch seconds. ``old_end`` and ``new_end`` are expected ends, None: never."""

    id: int
    pass_id: int | None
    at: float
    job: int
    source: str
    target: str
    old_end: float | None
    new_end: float | None
    transaction: int | None
    outcome: str
    message: str


_PASS = """
    SELECT id, asked_by, extract(epoch FROM asked_at)::float8, extract(epoch FROM began_at)::float8,
           extract(epoch FROM ended_at)::float8, algorithm, heuristic, waiting, moved, message
    FROM grid_passes
"""
_LAST = f"{_PASS} ORDER BY id DESC LIMIT %s"
_ASKED = f"{_PASS} WHERE began_at IS NULL ORDER BY id"
_UNFINISHED = f"{_PASS} WHERE began_at IS NOT NULL AND ended_at IS NULL ORDER BY id"
# Passes begin one after the other, in the order of their numbers.
_LAST_BEGUN = """
    SELECT extract(epoch FROM began_at)::float8 FROM grid_passes WHERE began_at IS NOT NULL ORDER BY id DESC LIMIT 1
"""
_ASK = "INSERT INTO grid_passes (asked_by) VALUES (%s) RETURNING id"
_BEGIN_NEW = """
    INSERT INTO grid_passes (began_at, algorithm, heuristic, waiting)
    VALUES (coalesce(to_timestamp(%s), clock_timestamp()), %s, %s, %s)
    RETURNING id
"""
_BEGIN_ASKED = """
    UPDATE grid_passes SET began_at = coalesce(to_timestamp(%s), clock_timestamp()), algorithm = %s, heuristic = %s,
        waiting = %s
    WHERE id = %s
"""
_END = "UPDATE grid_passes SET ended_at = clock_timestamp(), moved = %s, message = %s WHERE id = %s"
_MOVE = """
    SELECT id, pass, extract(epoch FROM at)::float8, job, source, target, extract(epoch FROM old_end)::float8,
           extract(epoch FROM new_end)::float8, transaction, outcome, message
    FROM grid_moves
"""
_OF_JOBS = f"{_MOVE} WHERE job = ANY(%s) ORDER BY id"
_OF_PASS = f"{_MOVE} WHERE pass = %s ORDER BY id"
_OPEN = f"{_MOVE} WHERE outcome = 'open' ORDER BY id"
_INSERT = """
    INSERT INTO grid_moves (pass, job, source, target, old_end, new_end, transaction)
    VALUES (%s, %s, %s, %s, to_timestamp(%s), to_timestamp(%s), %s) RETURNING id
"""
_SETTLE = "UPDATE grid_moves SET outcome = %s, message = %s WHERE id = %s"
_SETTLE_OF = "UPDATE grid_moves SET outcome = %s, message = %s WHERE transaction = %s"


def ask(connection: Connection, who: str) -> int:
    """Ask for a pass now; return its number."""
    row = connection.execute(_ASK, [who]).fetchone()
    assert row is not None
    return int(row[0])


def asked(connection: Connection) -> list[GridPassRow]:
    """Return the passes that were asked for and did not begin."""
    return [GridPassRow(*row) for row in connection.execute(_ASKED).fetchall()]


def unfinished(connection: Connection) -> list[GridPassRow]:
    """Return the passes that began and did not end."""
    return [GridPassRow(*row) for row in connection.execute(_UNFINISHED).fetchall()]


def latest(connection: Connection, count: int) -> list[GridPassRow]:
    """Return ``count`` passes, the latest first."""
    return [GridPassRow(*row) for row in connection.execute(_LAST, [count]).fetchall()]


def last_begun(connection: Connection) -> float | None:
    """Return when the last pass began (epoch seconds)."""
    row = connection.execute(_LAST_BEGUN).fetchone()
    return row[0] if row else None


def begin(
    connection: Connection,
    algorithm: int | None,
    heuristic: str,
    waiting: int,
    number: int | None = None,
    at: float | None = None,
) -> int:
    """Begin a pass over ``waiting`` jobs: the requested pass ``number``, or a new one. Return its number.

    It begins at ``at`` (epoch seconds), or now.
    """
    if number is not None:
        connection.execute(_BEGIN_ASKED, [at, algorithm, heuristic, waiting, number])
        return number
    row = connection.execute(_BEGIN_NEW, [at, algorithm, heuristic, waiting]).fetchone()
    assert row is not None
    return int(row[0])


def end(connection: Connection, number: int, moved: int, message: str = "") -> None:
    """Note that a pass is over."""
    connection.execute(_END, [moved, message, number])


def add_move(
    connection: Connection,
    pass_id: int | None,
    job: int,
    source: str,
    target: str,
    old_end: float | None,
    new_end: float | None,
    transaction: int | None = None,
) -> int:
    """Note a move that was decided; return its number. Expected ends in epoch seconds, None: never."""
    values = [pass_id, job, source, target, old_end, new_end, transaction]
    row = connection.execute(_INSERT, values).fetchone()
    assert row is not None
    return int(row[0])


def settle_move(connection: Connection, move: int, outcome: str, message: str = "") -> None:
    """Note the outcome of a move: ``moved`` or ``given up``."""
    connection.execute(_SETTLE, [outcome, message, move])


def settle_moves_of(connection: Connection, transaction: int, outcome: str, message: str = "") -> None:
    """Note the outcome of the moves of a transaction."""
    connection.execute(_SETTLE_OF, [outcome, message, transaction])


def moves_of_jobs(connection: Connection, jobs: Sequence[int]) -> list[GridMoveRow]:
    """Return the moves of jobs, in order."""
    return [GridMoveRow(*row) for row in connection.execute(_OF_JOBS, [list(jobs)]).fetchall()]


def moves_of_pass(connection: Connection, number: int) -> list[GridMoveRow]:
    """Return the moves of a pass, in order."""
    return [GridMoveRow(*row) for row in connection.execute(_OF_PASS, [number]).fetchall()]


def open_moves(connection: Connection) -> list[GridMoveRow]:
    """Return the moves whose outcome is not known."""
    return [GridMoveRow(*row) for row in connection.execute(_OPEN).fetchall()]
