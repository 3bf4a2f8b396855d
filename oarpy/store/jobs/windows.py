"""Windows of reservations as their users ask for them, and the offers to refused reservations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from oarpy.model.windows import AskedWindow
from oarpy.store.database import Connection

_INSERT = """
    INSERT INTO reservation_windows (job_id, ready, deadline, fix_after, farthest, slack_percent)
    SELECT job, CASE WHEN ready > now() THEN ready END, deadline, fix_after, farthest, slack_percent
    FROM unnest(%s::bigint[], %s::timestamptz[], %s::timestamptz[], %s::smallint[], %s::float8[], %s::smallint[])
        AS w(job, ready, deadline, fix_after, farthest, slack_percent)
"""
"""A window that may begin at once has no earliest start."""

_OF_JOBS = """
    SELECT w.job_id, extract(epoch FROM w.ready)::float8, extract(epoch FROM w.deadline)::float8,
           extract(epoch FROM coalesce(j.started_at, j.reservation_start))::float8,
           w.fixed_at IS NOT NULL OR j.state NOT IN ('Waiting', 'Hold')
           OR (j.reservation_state = 'Scheduled' AND j.reservation_start <= now() + %(notice)s * interval '1 second')
    FROM reservation_windows w JOIN jobs j USING (job_id) WHERE w.job_id = ANY(%(jobs)s)
"""

_AT = """
    SELECT DISTINCT ON (c.job_id) c.job_id, extract(epoch FROM c.ready)::float8, extract(epoch FROM c.deadline)::float8,
           extract(epoch FROM c.start_time)::float8, c.fixed
    FROM window_changes c WHERE c.job_id = ANY(%s) AND c.at <= %s ORDER BY c.job_id, c.at DESC
"""

_FIX = "UPDATE reservation_windows SET fixed_at = now() WHERE job_id = ANY(%s) AND fixed_at IS NULL"
_OFFERS = """
    SELECT offer_id, job_id, extract(epoch FROM start_time)::float8, extract(epoch FROM end_time)::float8, phi,
           extract(epoch FROM valid_until)::float8, accepted_job
    FROM reservation_offers WHERE job_id = ANY(%s) ORDER BY job_id, phi, start_time
"""


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
class OfferRow:
    """A start that a refused reservation could have, and the job that came of it; instants in epoch seconds."""

    id: int
    job: int
    start: float
    end: float
    phi: float
    valid_until: float
    accepted_job: int | None = None


def insert(connection: Connection, windows: Sequence[tuple[int, AskedWindow]]) -> None:
    """Store the windows of new reservations."""
    if windows:
        rows = [
            (job, window.ready, window.deadline, window.fix_after, window.farthest, window.slack_percent)
            for job, window in windows
        ]
        connection.execute(_INSERT, [list(column) for column in zip(*rows, strict=True)])


def of_jobs(connection: Connection, jobs: Sequence[int], notice: float) -> dict[int, JobWindow]:
    """Return the windows of ``jobs``; a job without a window is missing.

    A reservation that begins within ``notice`` seconds counts as fixed.
    """
    rows = connection.execute(_OF_JOBS, {"jobs": list(jobs), "notice": notice})
    return {row[0]: JobWindow(*row) for row in rows}


def at_instant(connection: Connection, jobs: Sequence[int], at: datetime) -> dict[int, JobWindow]:
    """Return the windows of ``jobs`` as they were at an instant; a job without a window then is missing."""
    rows = connection.execute(_AT, [list(jobs), at]).fetchall()
    return {row[0]: JobWindow(*row) for row in rows if row[2] is not None}


def fix(connection: Connection, jobs: Sequence[int]) -> None:
    """Let these reservations move no more."""
    if jobs:
        connection.execute(_FIX, [list(jobs)])


def offers(connection: Connection, jobs: Sequence[int]) -> list[OfferRow]:
    """Return the offers to these refused reservations, the nearest first."""
    return [OfferRow(*row) for row in connection.execute(_OFFERS, [list(jobs)])]


_CLAIM = """
    SELECT o.job_id, j.user_name, o.start_time, o.end_time, o.valid_until > now(), o.accepted_job,
           j.command, s.environment, coalesce(k.content, ''), s.request, j.queue_name,
           j.state IN ('Waiting', 'Hold') AND j.reservation_state = 'Scheduled',
           extract(epoch FROM CASE WHEN o.asked_deadline IS NULL THEN o.start_time ELSE o.asked_ready END)::float8,
           extract(epoch FROM coalesce(o.asked_deadline, o.end_time))::float8
    FROM reservation_offers o JOIN jobs j USING (job_id) JOIN submissions s USING (submission_id)
        LEFT JOIN kept_scripts k ON k.digest = s.script
    WHERE o.offer_id = %s FOR UPDATE OF o
"""
_TAKE = """
    INSERT INTO reservation_windows (job_id, ready, deadline, take) VALUES (%s, %s, %s, %s)
    ON CONFLICT (job_id) DO UPDATE SET take = EXCLUDED.take
"""
_TAKEN = "UPDATE reservation_offers SET accepted_job = %s WHERE offer_id = %s"


@dataclass(frozen=True, slots=True)
class OfferedPlace:
    """An offer, and the question that it answers: the request of ``user``, before the rules.

    ``is_valid`` says that its time is not over, ``accepted_job`` which job was made of it. The job ``stands`` if it was
    refused another window, ``ready`` to ``deadline`` (epoch seconds), and is an accepted reservation as before.
    """

    job: int
    user: str
    start: datetime
    end: datetime
    is_valid: bool
    accepted_job: int | None
    command: str
    environment: Mapping[str, str]
    script: str
    request: Mapping[str, object]
    queue: str
    stands: bool
    ready: float | None
    deadline: float


def claim_offer(connection: Connection, number: int) -> OfferedPlace | None:
    """Return an offer, which no other session can take until the transaction ends; None for an unknown number."""
    row = connection.execute(_CLAIM, [number]).fetchone()
    return None if row is None else OfferedPlace(*row)


def take(connection: Connection, job: int, start: datetime, window: tuple[datetime, datetime]) -> None:
    """Let a new reservation take an offered start if it cannot have its window.

    A strict reservation gets the ``window``, (ready, deadline), of its date.
    """
    connection.execute(_TAKE, [job, *window, start])


def take_offer(connection: Connection, number: int, job: int | None) -> None:
    """Note which job came of an offer; None: none did, and it can be taken again."""
    connection.execute(_TAKEN, [job, number])


_RESERVATION = """
    SELECT j.job_id, j.user_name, j.state, j.reservation_state,
           extract(epoch FROM CASE WHEN w.job_id IS NULL THEN j.reservation_start ELSE w.ready END)::float8,
           extract(epoch FROM coalesce(w.deadline, j.reservation_start + j.walltime))::float8,
           extract(epoch FROM j.reservation_start)::float8, extract(epoch FROM j.walltime)::float8,
           w.job_id IS NULL OR w.fixed_at IS NOT NULL
           OR j.reservation_start <= now() + %(notice)s * interval '1 second', w.job_id IS NULL,
           (SELECT p.broker FROM door_parts p WHERE p.job_id = j.job_id), 'bag' = ANY(j.types)
    FROM jobs j LEFT JOIN reservation_windows w USING (job_id) WHERE j.job_id = %(job)s
"""
_ASK = """
    INSERT INTO reservation_windows (job_id, ready, deadline, fix_after)
    VALUES (%(job)s, to_timestamp(%(ready)s::float8), to_timestamp(%(deadline)s::float8), %(fix_after)s)
    ON CONFLICT (job_id) DO NOTHING
"""
_ASK_PASS = """
    UPDATE reservation_windows SET asked_ready = to_timestamp(%(ready)s::float8),
        asked_deadline = to_timestamp(%(deadline)s::float8), take = to_timestamp(%(take)s::float8)
    WHERE job_id = %(job)s
"""
_WIDEN = """
    UPDATE reservation_windows SET ready = to_timestamp(%(ready)s::float8),
        deadline = to_timestamp(%(deadline)s::float8), asked_ready = NULL, asked_deadline = NULL,
        take = NULL
    WHERE job_id = %(job)s
"""
_STRICT_AGAIN = """
    DELETE FROM reservation_windows
    WHERE job_id = %(job)s AND asked_deadline IS NULL
      AND ready = to_timestamp(%(ready)s::float8) AND deadline = to_timestamp(%(deadline)s::float8)
"""
_IS_ASKED = """
    SELECT EXISTS (
        SELECT FROM reservation_windows w JOIN jobs j USING (job_id)
        WHERE w.job_id = %s AND w.asked_deadline IS NOT NULL AND j.state IN ('Waiting', 'Hold'))
"""


@dataclass(frozen=True, slots=True)
class ReservationRow:
    """A job as a reservation, with its window, or its place if it is ``strict``; instants in epoch seconds.

    ``broker`` is the broker whose part the job is; None for other jobs. For a task ``of_bag`` its bag has the promise.
    """

    job: int
    user: str
    job_state: str
    reservation_state: str | None
    ready: float | None
    deadline: float
    start: float
    walltime: float
    fixed: bool
    strict: bool
    broker: str | None
    of_bag: bool

    @property
    def state(self) -> str:
        """Whether it may move, in a word."""
        return "fixed" if self.fixed else "movable"


def reservation(connection: Connection, job: int, notice: float) -> ReservationRow | None:
    """Return a job as a reservation, None if there is no such job.

    It counts as fixed if it begins within ``notice`` seconds.
    """
    row = connection.execute(_RESERVATION, {"job": job, "notice": notice}).fetchone()
    return None if row is None else ReservationRow(*row)


def ask(
    connection: Connection,
    row: ReservationRow,
    window: tuple[float | None, float],
    fix_after: int | None,
    *,
    at_once: bool,
    take: float | None = None,
) -> None:
    """Give a reservation another window ``at_once``, or have the next pass decide about it.

    A reservation without a window has its place as its window until then, and is fixed by ``fix_after``. If it cannot
    have the other window, it takes the start to ``take`` (epoch seconds).
    """
    own = {"job": row.job, "ready": row.ready, "deadline": row.deadline, "fix_after": fix_after}
    connection.execute(_ASK, own)
    wanted = {"job": row.job, "ready": window[0], "deadline": window[1], "take": take}
    connection.execute(_WIDEN if at_once else _ASK_PASS, wanted)


def stay_strict(connection: Connection, row: ReservationRow) -> None:
    """Take back the window of a reservation that had none, and was refused one."""
    connection.execute(_STRICT_AGAIN, {"job": row.job, "ready": row.ready, "deadline": row.deadline})


def is_asked(connection: Connection, job: int) -> bool:
    """Tell whether a pass is still to answer about another window, as it does for jobs that wait."""
    row = connection.execute(_IS_ASKED, [job]).fetchone()
    return bool(row and row[0])
