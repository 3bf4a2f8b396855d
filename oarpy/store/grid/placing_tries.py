"""Tries: searches for room before a deadline, and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg.types.json import Jsonb

from oarpy.store.database import Connection


@dataclass(frozen=True, slots=True)
class GridTryRow:
    """A try of a job; times in epoch seconds. ``idle`` has the idle processors by cluster, from their answers."""

    job: int
    number: int
    due: float
    last: bool
    done: float | None
    outcome: str
    idle: Mapping[str, int]
    message: str


_TRY = """
    SELECT job, number, extract(epoch FROM due_at)::float8, last, extract(epoch FROM done_at)::float8, outcome, idle,
           message
    FROM grid_tries
"""
_PENDING = f"{_TRY} WHERE done_at IS NULL ORDER BY due_at, job, number"
_OF_JOBS = f"{_TRY} WHERE job = ANY(%s) ORDER BY job, number"
_LAST_OF_JOBS = f"""{_TRY}
    WHERE (job, number) IN (SELECT job, max(number) FROM grid_tries WHERE job = ANY(%s) GROUP BY job)
"""  # noqa: S608 - a text of this file
_PLAN = """
    INSERT INTO grid_tries (job, number, due_at, last) VALUES (%s, %s, to_timestamp(%s), %s)
    ON CONFLICT (job, number) DO UPDATE SET due_at = excluded.due_at, last = excluded.last
    WHERE grid_tries.done_at IS NULL
"""
_SETTLE = """
    UPDATE grid_tries SET done_at = clock_timestamp(), outcome = %s, idle = %s, message = %s
    WHERE job = %s AND number = %s AND done_at IS NULL
"""
_DROP = "DELETE FROM grid_tries WHERE job = ANY(%s) AND done_at IS NULL"


def plan(connection: Connection, job: int, number: int, due: float, *, last: bool) -> None:
    """Plan a try, or put one off that was not made yet."""
    connection.execute(_PLAN, [job, number, due, last])


def pending(connection: Connection) -> list[GridTryRow]:
    """Return all tries that are planned, the next one first."""
    return [GridTryRow(*row) for row in connection.execute(_PENDING).fetchall()]


def of_jobs(connection: Connection, jobs: Sequence[int]) -> list[GridTryRow]:
    """Return all tries of jobs, by job and number."""
    return [GridTryRow(*row) for row in connection.execute(_OF_JOBS, [list(jobs)]).fetchall()]


def last_of_jobs(connection: Connection, jobs: Sequence[int]) -> dict[int, GridTryRow]:
    """Return the last try of each of these jobs that has one, made or planned."""
    return {row[0]: GridTryRow(*row) for row in connection.execute(_LAST_OF_JOBS, [list(jobs)]).fetchall()}


def settle(
    connection: Connection, job: int, number: int, outcome: str, idle: Mapping[str, int], message: str = ""
) -> None:
    """Note the outcome of a try: ``claimed``, ``no room`` or ``refused``."""
    connection.execute(_SETTLE, [outcome, Jsonb(dict(idle)), message, job, number])


def drop_pending(connection: Connection, jobs: Sequence[int]) -> None:
    """Forget the planned tries of jobs."""
    connection.execute(_DROP, [list(jobs)])
