"""Windows of reservations, moves inside them, and what refused ones are offered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from oarpy.model.windows import AskedWindow
from oarpy.store.database import Connection
from oarpy.store.events import NewEvent
from oarpy.store.events import log as log_events
from oarpy.store.refusals import set_wise

_INSERT = """
    INSERT INTO reservation_windows (job_id, ready, deadline, fix_after, farthest)
    SELECT * FROM unnest(%s::bigint[], %s::timestamptz[], %s::timestamptz[], %s::smallint[], %s::float8[])
"""

# Parts of brokers are theirs to move, whatever somebody writes here.
_LIVE = """
    SELECT w.job_id, extract(epoch FROM w.ready)::float8, extract(epoch FROM w.deadline)::float8,
           w.fixed_at IS NOT NULL, w.fix_after, w.farthest, extract(epoch FROM w.asked_ready)::float8,
           extract(epoch FROM w.asked_deadline)::float8
    FROM reservation_windows w JOIN jobs j USING (job_id)
    WHERE j.state IN ('Waiting', 'Hold') AND NOT EXISTS (SELECT FROM door_parts p WHERE p.job_id = w.job_id)
"""

_OF_JOBS = """
    SELECT w.job_id, extract(epoch FROM w.ready)::float8, extract(epoch FROM w.deadline)::float8,
           extract(epoch FROM coalesce(j.started_at, j.reservation_start))::float8,
           w.fixed_at IS NOT NULL OR j.state NOT IN ('Waiting', 'Hold')
    FROM reservation_windows w JOIN jobs j USING (job_id) WHERE w.job_id = ANY(%s)
"""

_CLEAR = "DELETE FROM reserved_resources WHERE job_id = ANY(%s)"
# What it will hold follows a reservation that moves: there is nothing, and what it is to have then comes after.
_MOVE = """
    UPDATE jobs j SET reservation_start = to_timestamp(s.start_time)
    FROM unnest(%(jobs)s::bigint[], %(starts)s::float8[]) AS s(job_id, start_time)
    WHERE j.job_id = s.job_id AND j.state = 'Waiting' AND j.reservation_state = 'Scheduled'
      AND j.reservation_start <> to_timestamp(s.start_time)
"""
_HOLD = """
    INSERT INTO reserved_resources (job_id, resource_id, during, exclusive)
    SELECT a.job_id, a.resource_id, tstzrange(j.reservation_start,
               j.reservation_start + j.walltime + %(security)s * interval '1 second'), a.exclusive
    FROM unnest(%(owners)s::bigint[], %(resources)s::int[], %(exclusive)s::boolean[])
            AS a(job_id, resource_id, exclusive) JOIN jobs j USING (job_id)
    WHERE j.state = 'Waiting' AND j.reservation_state = 'Scheduled'
"""

_FIX = "UPDATE reservation_windows SET fixed_at = now() WHERE job_id = ANY(%s) AND fixed_at IS NULL"
# Who took another start than was asked for has no room any more.
_NARROW = """
    UPDATE reservation_windows w SET ready = to_timestamp(s.ready), deadline = to_timestamp(s.deadline)
    FROM unnest(%s::bigint[], %s::float8[], %s::float8[]) AS s(job_id, ready, deadline) WHERE w.job_id = s.job_id
"""
# What was asked for meanwhile is answered by the next pass.
_ANSWER = """
    UPDATE reservation_windows w SET asked_ready = NULL, asked_deadline = NULL,
        ready = CASE WHEN s.granted THEN w.asked_ready ELSE w.ready END,
        deadline = CASE WHEN s.granted THEN w.asked_deadline ELSE w.deadline END
    FROM unnest(%s::bigint[], %s::boolean[], %s::float8[], %s::float8[]) AS s(job_id, granted, ready, deadline)
    WHERE w.job_id = s.job_id AND w.asked_deadline = to_timestamp(s.deadline)
      AND w.asked_ready IS NOT DISTINCT FROM to_timestamp(s.ready)
"""
_OFFER = """
    INSERT INTO reservation_offers (job_id, start_time, end_time, phi, valid_until)
    SELECT s.job_id, to_timestamp(s.start_time), to_timestamp(s.end_time), s.phi, now() + %s * interval '1 second'
    FROM unnest(%s::bigint[], %s::float8[], %s::float8[], %s::float8[]) AS s(job_id, start_time, end_time, phi)
    WHERE EXISTS (SELECT FROM jobs j WHERE j.job_id = s.job_id)
"""

_OFFERS = """
    SELECT offer_id, job_id, extract(epoch FROM start_time)::float8, extract(epoch FROM end_time)::float8, phi,
           extract(epoch FROM valid_until)::float8
    FROM reservation_offers WHERE job_id = ANY(%s) ORDER BY job_id, phi, start_time
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


@dataclass(frozen=True, slots=True)
class JobWindow:
    """The window of a job, and where it is in it; a ``fixed`` one no longer moves. Instants in epoch seconds."""

    job: int
    ready: float | None
    deadline: float
    start: float | None
    fixed: bool

    @property
    def state(self) -> str:
        """Whether it may move, in a word."""
        return "fixed" if self.fixed else "movable"


@dataclass(frozen=True, slots=True)
class MoveRow:
    """An accepted reservation that goes to another ``start`` (epoch seconds); ``text`` tells its user."""

    job: int
    start: float
    resources: Sequence[int]
    exclusive: bool
    text: str


@dataclass(frozen=True, slots=True)
class OfferRow:
    """A start that a refused reservation could have; instants in epoch seconds."""

    id: int
    job: int
    start: float
    end: float
    phi: float
    valid_until: float


def insert(connection: Connection, windows: Sequence[tuple[int, AskedWindow]]) -> None:
    """Store the windows of new reservations."""
    if windows:
        rows = [(job, one.ready, one.deadline, one.fix_after, one.farthest) for job, one in windows]
        connection.execute(_INSERT, [list(column) for column in zip(*rows, strict=True)])


def live(connection: Connection) -> list[WindowRow]:
    """Return the windows of reservations that have not begun."""
    return [WindowRow(*row) for row in connection.execute(_LIVE)]


def of_jobs(connection: Connection, jobs: Sequence[int]) -> dict[int, JobWindow]:
    """Return the windows of those of these jobs that have one."""
    return {row[0]: JobWindow(*row) for row in connection.execute(_OF_JOBS, [list(jobs)])}


@set_wise
def move(connection: Connection, moves: Sequence[MoveRow], security_time: float) -> None:
    """Let accepted reservations go to other starts, all of them at once, and tell their users.

    Raises ``psycopg.errors.ExclusionViolation`` when somebody else has one of the resources then.
    """
    if not moves:
        return
    connection.execute(_CLEAR, [[one.job for one in moves]])
    connection.execute(_MOVE, {"jobs": [one.job for one in moves], "starts": [float(one.start) for one in moves]})
    assignments = {
        "owners": [one.job for one in moves for _ in one.resources],
        "resources": [resource for one in moves for resource in one.resources],
        "exclusive": [one.exclusive for one in moves for _ in one.resources],
    }
    connection.execute(_HOLD, {"security": security_time, **assignments})
    log_events(connection, (NewEvent("RESERVATION_MOVED", one.text, one.job) for one in moves if one.text))


@set_wise
def fix(connection: Connection, jobs: Sequence[int]) -> None:
    """Let these reservations move no more."""
    if jobs:
        connection.execute(_FIX, [list(jobs)])


@set_wise
def narrow(connection: Connection, windows: Sequence[tuple[int, float, float]]) -> None:
    """Give reservations windows, (job, ready, deadline) each, of no more than their places."""
    if windows:
        rows = [(job, float(ready), float(deadline)) for job, ready, deadline in windows]
        connection.execute(_NARROW, [list(column) for column in zip(*rows, strict=True)])


@set_wise
def answer(connection: Connection, answers: Sequence[tuple[int, bool, float | None, float]]) -> None:
    """Give reservations the windows, (job, granted, ready, deadline) each, that were asked for, or not."""
    if answers:
        connection.execute(_ANSWER, [list(column) for column in zip(*answers, strict=True)])


@set_wise
def offer(connection: Connection, offers: Sequence[tuple[int, float, float, float]], valid: float) -> None:
    """Store offers, (job, start, end, phi) each, which are good for ``valid`` seconds."""
    rows = [(job, float(start), float(end), float(phi)) for job, start, end, phi in offers]
    if rows:
        connection.execute(_OFFER, [valid, *(list(column) for column in zip(*rows, strict=True))])


def offers(connection: Connection, jobs: Sequence[int]) -> list[OfferRow]:
    """Return what these refused reservations were offered, the nearest first."""
    return [OfferRow(*row) for row in connection.execute(_OFFERS, [list(jobs)])]


_CLAIM = """
    SELECT o.job_id, j.user_name, o.start_time, o.end_time, o.valid_until > now(), o.accepted_job,
           j.command, s.environment, s.request, j.queue_name
    FROM reservation_offers o JOIN jobs j USING (job_id) JOIN submissions s USING (submission_id)
    WHERE o.offer_id = %s FOR UPDATE OF o
"""
_TAKEN = "UPDATE reservation_offers SET accepted_job = %s WHERE offer_id = %s"


@dataclass(frozen=True, slots=True)
class OfferedPlace:
    """An offer, and the question that it answers: what ``user`` asked for, before the rules.

    ``is_valid`` says that its time is not over, ``accepted_job`` which job came of it.
    """

    job: int
    user: str
    start: datetime
    end: datetime
    is_valid: bool
    accepted_job: int | None
    command: str
    environment: Mapping[str, str]
    request: Mapping[str, object]
    queue: str


def claim_offer(connection: Connection, number: int) -> OfferedPlace | None:
    """Return an offer, which nobody else can take until the transaction ends; None if there is none."""
    row = connection.execute(_CLAIM, [number]).fetchone()
    return None if row is None else OfferedPlace(*row)


def take_offer(connection: Connection, number: int, job: int) -> None:
    """Note which job came of an offer."""
    connection.execute(_TAKEN, [job, number])


_RESERVATION = """
    SELECT j.job_id, j.user_name, j.state, j.reservation_state,
           extract(epoch FROM CASE WHEN w.job_id IS NULL THEN j.reservation_start ELSE w.ready END)::float8,
           extract(epoch FROM coalesce(w.deadline, j.reservation_start + j.walltime))::float8,
           extract(epoch FROM j.reservation_start)::float8, extract(epoch FROM j.walltime)::float8,
           w.job_id IS NULL OR w.fixed_at IS NOT NULL
    FROM jobs j LEFT JOIN reservation_windows w USING (job_id) WHERE j.job_id = %s
"""
_ASK = """
    INSERT INTO reservation_windows (job_id, ready, deadline, fix_after)
    VALUES (%(job)s, to_timestamp(%(ready)s::float8), to_timestamp(%(deadline)s::float8), %(fix_after)s)
    ON CONFLICT (job_id) DO NOTHING
"""
_ASK_PASS = """
    UPDATE reservation_windows SET asked_ready = to_timestamp(%(ready)s::float8),
        asked_deadline = to_timestamp(%(deadline)s::float8)
    WHERE job_id = %(job)s
"""
_WIDEN = """
    UPDATE reservation_windows SET ready = to_timestamp(%(ready)s::float8),
        deadline = to_timestamp(%(deadline)s::float8), asked_ready = NULL, asked_deadline = NULL
    WHERE job_id = %(job)s
"""
_IS_ASKED = "SELECT EXISTS (SELECT FROM reservation_windows WHERE job_id = %s AND asked_deadline IS NOT NULL)"


@dataclass(frozen=True, slots=True)
class ReservationRow:
    """A job as a reservation, with its window, or its place if it has none; instants in epoch seconds."""

    job: int
    user: str
    job_state: str
    reservation_state: str | None
    ready: float | None
    deadline: float
    start: float
    walltime: float
    fixed: bool

    @property
    def state(self) -> str:
        """Whether it may move, in a word."""
        return "fixed" if self.fixed else "movable"


def reservation(connection: Connection, job: int) -> ReservationRow | None:
    """Return a job as a reservation, None if there is no such job."""
    row = connection.execute(_RESERVATION, [job]).fetchone()
    return None if row is None else ReservationRow(*row)


def ask(
    connection: Connection,
    row: ReservationRow,
    window: tuple[float | None, float],
    fix_after: int | None,
    *,
    at_once: bool,
) -> None:
    """Give a reservation another window ``at_once``, or have the next pass decide about it.

    One that had none has its place as its window until then, and is fixed by ``fix_after``.
    """
    own = {"job": row.job, "ready": row.ready, "deadline": row.deadline, "fix_after": fix_after}
    connection.execute(_ASK, own)
    wanted = {"job": row.job, "ready": window[0], "deadline": window[1]}
    connection.execute(_WIDEN if at_once else _ASK_PASS, wanted)


def is_asked(connection: Connection, job: int) -> bool:
    """Tell whether a pass is still to answer about another window."""
    found = connection.execute(_IS_ASKED, [job]).fetchone()
    return bool(found and found[0])
