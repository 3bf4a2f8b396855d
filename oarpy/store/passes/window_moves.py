"""The rows of windows that a pass reads and writes: moves inside them, fixed places, offers to refused reservations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oarpy.store.database import Connection
from oarpy.store.events import NewEvent
from oarpy.store.events import log as log_events
from oarpy.store.jobs import windows
from oarpy.store.refusals import set_wise

# Parts of brokers are theirs to move, whatever somebody writes here.
_LIVE = """
    SELECT w.job_id, extract(epoch FROM w.ready)::float8, extract(epoch FROM w.deadline)::float8,
           w.fixed_at IS NOT NULL, w.fix_after, w.farthest, extract(epoch FROM w.asked_ready)::float8,
           extract(epoch FROM w.asked_deadline)::float8, extract(epoch FROM w.take)::float8,
           w.slack_percent
    FROM reservation_windows w JOIN jobs j USING (job_id)
    WHERE j.state IN ('Waiting', 'Hold') AND NOT EXISTS (SELECT FROM door_parts p WHERE p.job_id = w.job_id)
"""

# A job that was put on hold, or deleted, meanwhile keeps its resources.
_LOCK = """
    SELECT job_id FROM jobs
    WHERE job_id = ANY(%s) AND state = 'Waiting' AND reservation_state = 'Scheduled'
    ORDER BY job_id FOR NO KEY UPDATE
"""
_CLEAR = "DELETE FROM reserved_resources WHERE job_id = ANY(%s)"
# Reserved resources move with their reservation: here none are left, and the new ones come after.
_MOVE = """
    UPDATE jobs j SET reservation_start = to_timestamp(s.start_time)
    FROM unnest(%(jobs)s::bigint[], %(starts)s::float8[]) AS s(job_id, start_time)
    WHERE j.job_id = s.job_id AND j.reservation_start <> to_timestamp(s.start_time)
"""
_HOLD = """
    INSERT INTO reserved_resources (job_id, resource_id, during, exclusive)
    SELECT a.job_id, a.resource_id, tstzrange(j.reservation_start,
               j.reservation_start + j.walltime + %(security)s * interval '1 second'), a.exclusive
    FROM unnest(%(owners)s::bigint[], %(resources)s::int[], %(exclusive)s::boolean[])
            AS a(job_id, resource_id, exclusive) JOIN jobs j USING (job_id)
"""

# A reservation that took a start outside its window has no room any more; a short alternative may have less of it.
_NARROW = """
    UPDATE reservation_windows w SET ready = to_timestamp(s.ready), deadline = to_timestamp(s.deadline)
    FROM unnest(%s::bigint[], %s::float8[], %s::float8[]) AS s(job_id, ready, deadline) WHERE w.job_id = s.job_id
"""
# A request that came meanwhile is answered by the next pass.
_ANSWER = """
    UPDATE reservation_windows w SET asked_ready = NULL, asked_deadline = NULL,
        ready = CASE WHEN s.granted THEN w.asked_ready ELSE w.ready END,
        deadline = CASE WHEN s.granted THEN w.asked_deadline ELSE w.deadline END
    FROM unnest(%s::bigint[], %s::boolean[], %s::float8[], %s::float8[]) AS s(job_id, granted, ready, deadline)
    WHERE w.job_id = s.job_id AND w.asked_deadline = to_timestamp(s.deadline)
      AND w.asked_ready IS NOT DISTINCT FROM to_timestamp(s.ready)
"""
_OFFER = """
    INSERT INTO reservation_offers (job_id, start_time, end_time, phi, asked_ready, asked_deadline, valid_until)
    SELECT s.job_id, to_timestamp(s.start_time), to_timestamp(s.end_time), s.phi, to_timestamp(s.ready),
        to_timestamp(s.deadline), now() + %s * interval '1 second'
    FROM unnest(%s::bigint[], %s::float8[], %s::float8[], %s::float8[], %s::float8[], %s::float8[])
        AS s(job_id, start_time, end_time, phi, ready, deadline)
    WHERE EXISTS (SELECT FROM jobs j WHERE j.job_id = s.job_id)
"""


@dataclass(frozen=True, slots=True)
class WindowRow:
    """The window of a reservation that waits; instants in epoch seconds."""

    job: int
    ready: float | None
    deadline: float
    fixed: bool
    fix_after: int | None
    farthest: float | None
    asked_ready: float | None
    asked_deadline: float | None
    take: float | None
    slack_percent: int | None


@dataclass(frozen=True, slots=True)
class MoveRow:
    """An accepted reservation that goes to another ``start`` (epoch seconds); ``text`` tells its user."""

    job: int
    start: float
    resources: Sequence[int]
    exclusive: bool
    text: str


def live(connection: Connection) -> list[WindowRow]:
    """Return the windows of reservations that have not begun."""
    return [WindowRow(*row) for row in connection.execute(_LIVE)]


@set_wise
def move(connection: Connection, moves: Sequence[MoveRow], security_time: float) -> None:
    """Move accepted reservations to other starts, all of them at once, and notify their users.

    Raises ``psycopg.errors.ExclusionViolation`` when somebody else has one of the resources then.
    """
    if not moves:
        return
    waiting = {job for (job,) in connection.execute(_LOCK, [[row.job for row in moves]])}
    moves = [row for row in moves if row.job in waiting]
    connection.execute(_CLEAR, [[row.job for row in moves]])
    connection.execute(_MOVE, {"jobs": [row.job for row in moves], "starts": [float(row.start) for row in moves]})
    assignments = {
        "owners": [row.job for row in moves for _ in row.resources],
        "resources": [resource for row in moves for resource in row.resources],
        "exclusive": [row.exclusive for row in moves for _ in row.resources],
    }
    connection.execute(_HOLD, {"security": security_time, **assignments})
    log_events(connection, (NewEvent("RESERVATION_MOVED", row.text, row.job) for row in moves if row.text))


@set_wise
def fix(connection: Connection, jobs: Sequence[int]) -> None:
    """Let these reservations move no more."""
    windows.fix(connection, jobs)


@set_wise
def narrow(connection: Connection, windows: Sequence[tuple[int, float | None, float]]) -> None:
    """Give reservations the windows, (job, ready, deadline) each, that they have with the places they got."""
    if windows:
        rows = [(job, None if ready is None else float(ready), float(deadline)) for job, ready, deadline in windows]
        connection.execute(_NARROW, [list(column) for column in zip(*rows, strict=True)])


@set_wise
def answer(connection: Connection, answers: Sequence[tuple[int, bool, float | None, float]]) -> None:
    """Give reservations the windows, (job, granted, ready, deadline) each, that were asked for, or not."""
    if answers:
        connection.execute(_ANSWER, [list(column) for column in zip(*answers, strict=True)])


@set_wise
def offer(
    connection: Connection,
    offers: Sequence[tuple[int, float, float, float, tuple[float | None, float] | None]],
    valid: float,
) -> None:
    """Store offers, (job, start, end, phi, asked) each, which are good for ``valid`` seconds.

    ``asked`` is the other window that an accepted reservation was refused, None for a new reservation.
    """
    rows = [
        (job, float(start), float(end), float(phi), *(asked or (None, None))) for job, start, end, phi, asked in offers
    ]
    if rows:
        connection.execute(_OFFER, [valid, *(list(column) for column in zip(*rows, strict=True))])
