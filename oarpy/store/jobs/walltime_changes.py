"""Changes of walltimes: requests of users, grants of the meta-scheduler, and the nodes that know them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from oarpy.store.database import Connection
from oarpy.store.events import NewEvent, log
from oarpy.store.past.reading import first_found
from oarpy.store.refusals import set_wise


@dataclass(frozen=True, slots=True)
class PendingChange:
    """A job with the change that was requested and the change that was granted.

    Durations in seconds, instants in epoch seconds. ``walltime`` is the present one, None before the job has its
    resources.
    """

    job: int
    state: str
    user: str
    queue: str
    types: tuple[str, ...]
    walltime: int | None
    ends_at: float | None
    pending: int
    granted: int
    forced: bool
    whole: bool
    delay_next_jobs: bool
    give_up_at: float | None


@dataclass(frozen=True, slots=True)
class RequestedChange:
    """A request for ``seconds`` more than a job has now, for at most ``timeout`` seconds (0: without end)."""

    job: int
    seconds: int
    by: str
    forced: bool = False
    whole: bool = False
    delay_next_jobs: bool = False
    timeout: int = 0


@dataclass(frozen=True, slots=True)
class UntoldRow:
    """A job whose node does not know its ``walltime`` (seconds) yet; ``head`` is None when the job is on no node."""

    job: int
    attempt: int
    types: tuple[str, ...]
    walltime: int
    head: str | None


_COLUMNS = """
    SELECT j.job_id, j.state, j.user_name, j.queue_name, j.types, extract(epoch FROM j.walltime)::bigint,
           extract(epoch FROM expected_end(j))::float8,
           coalesce(extract(epoch FROM w.pending), 0)::bigint, coalesce(extract(epoch FROM w.granted), 0)::bigint,
           coalesce(w.forced, false), coalesce(w.whole, false), coalesce(w.delay_next_jobs, false),
           extract(epoch FROM w.give_up_at)::float8
"""
_ONE = _COLUMNS + "FROM jobs j LEFT JOIN walltime_changes w USING (job_id) WHERE j.job_id = %s"
_LOCKED = _ONE + " FOR NO KEY UPDATE OF j"
_PENDING = (
    _COLUMNS
    + """
    FROM walltime_changes w JOIN jobs j USING (job_id)
    WHERE w.pending <> interval '0'
    ORDER BY w.requested_at, w.job_id
"""
)

_ASK = """
    INSERT INTO walltime_changes AS w
        (job_id, pending, forced, whole, delay_next_jobs, requested_at, requested_by, give_up_at)
    VALUES (%(job)s, %(seconds)s * interval '1 second', %(forced)s, %(whole)s, %(delay)s, now(), %(by)s,
            CASE WHEN %(timeout)s > 0 THEN now() + %(timeout)s * interval '1 second' END)
    ON CONFLICT (job_id) DO UPDATE
        SET pending = excluded.pending, forced = excluded.forced, whole = excluded.whole,
            delay_next_jobs = excluded.delay_next_jobs, requested_at = excluded.requested_at,
            requested_by = excluded.requested_by, give_up_at = excluded.give_up_at
"""

# A job that ended meanwhile gets nothing. Granted time is no longer pending. Nothing of a reduction stays pending: a
# job that has run for longer than its new walltime ends now.
_GRANT = """
    WITH longer AS (
        UPDATE jobs j
        SET walltime = greatest(j.walltime + g.seconds * interval '1 second', interval '1 second'),
            message = regexp_replace(j.message, '^(R=[0-9]+,W=)[0-9:]+', '\\1' || to_char(
                greatest(j.walltime + g.seconds * interval '1 second', interval '1 second'), 'FMHH24:FMMI:FMSS'))
        FROM unnest(%(jobs)s::bigint[], %(seconds)s::bigint[]) AS g(job_id, seconds)
        WHERE j.job_id = g.job_id AND j.state = 'Running'
        RETURNING j.job_id, j.walltime, g.seconds * interval '1 second' AS more
    ), noted AS (
        UPDATE walltime_changes w
        SET pending = CASE WHEN w.pending < interval '0' THEN interval '0' ELSE w.pending - more END,
            granted = w.granted + more,
            granted_with_force = w.granted_with_force + CASE WHEN w.forced THEN more ELSE interval '0' END,
            granted_with_whole = w.granted_with_whole + CASE WHEN w.whole THEN more ELSE interval '0' END,
            granted_with_delay_next_jobs = w.granted_with_delay_next_jobs
                + CASE WHEN w.delay_next_jobs THEN more ELSE interval '0' END
        FROM longer l WHERE w.job_id = l.job_id
        RETURNING w.job_id, w.pending
    )
    INSERT INTO event_logs (type, job_id, description)
    SELECT 'WALLTIME_REQUEST', job_id,
           format('walltime changed: %%s (granted: %%s, pending: %%s)', walltime, more, pending)
    FROM longer JOIN noted USING (job_id)
    RETURNING job_id
"""

_DROP = """
    WITH dropped AS (
        UPDATE walltime_changes SET pending = interval '0'
        WHERE job_id = ANY(%s) AND pending <> interval '0' RETURNING job_id
    )
    INSERT INTO event_logs (type, job_id, description)
    SELECT 'WALLTIME_REQUEST_CANCELLATION', job_id, %s FROM dropped
"""

_UNTOLD = """
    SELECT j.job_id, j.attempt, j.types, greatest(floor(extract(epoch FROM j.walltime)), 1)::bigint,
           (SELECT min(r.network_address) FILTER (WHERE a.extension_id IS NULL)
            FROM assigned_resources a JOIN resources r USING (resource_id)
            WHERE a.job_id = j.job_id AND (upper_inf(a.during) OR a.suspended) AND r.type = 'default')
    FROM walltime_changes w JOIN jobs j USING (job_id)
    WHERE NOT w.node_told AND j.state IN ('Running', 'Suspended', 'Resuming')
"""
_TOLD = """
    UPDATE walltime_changes w SET node_told = true
    FROM jobs j, unnest(%s::bigint[], %s::int[], %s::bigint[]) AS t(job_id, attempt, seconds)
    WHERE NOT w.node_told AND w.job_id = j.job_id AND j.job_id = t.job_id AND j.attempt = t.attempt
      AND greatest(floor(extract(epoch FROM j.walltime)), 1) = t.seconds
"""
_TELL_NO_MORE = """
    UPDATE walltime_changes w SET node_told = true FROM jobs j
    WHERE NOT w.node_told AND j.job_id = w.job_id AND j.state IN ('Terminated', 'Error')
"""


def one(connection: Connection, job: int, *, locked: bool) -> PendingChange | None:
    """Return a job with its walltime change, if any; ``locked`` until the end of the transaction."""
    row = first_found(connection, lambda: connection.execute(_LOCKED if locked else _ONE, [job]).fetchone())
    return None if row is None else _change(row)


def pending(connection: Connection) -> list[PendingChange]:
    """Return the jobs for which a change is pending, oldest request first; some may have ended since."""
    return [_change(row) for row in connection.execute(_PENDING)]


def ask(connection: Connection, request: RequestedChange, text: str) -> None:
    """Store a request, which replaces the request before; ``text`` describes it in the events of the job."""
    connection.execute(
        _ASK,
        {
            "job": request.job,
            "seconds": request.seconds,
            "forced": request.forced,
            "whole": request.whole,
            "delay": request.delay_next_jobs,
            "by": request.by,
            "timeout": request.timeout,
        },
    )
    log(connection, [NewEvent("WALLTIME_REQUEST", text, request.job)])


@set_wise
def grant(connection: Connection, granted: Sequence[tuple[int, int]]) -> list[int]:
    """Add (job, seconds) to walltimes; return the jobs that still ran and got it."""
    if not granted:
        return []
    values = {"jobs": [job for job, _ in granted], "seconds": [seconds for _, seconds in granted]}
    return [row[0] for row in connection.execute(_GRANT, values)]


@set_wise
def drop(connection: Connection, jobs: Sequence[int], reason: str) -> None:
    """Forget the pending changes of jobs."""
    if jobs:
        connection.execute(_DROP, [list(jobs), reason])


def untold(connection: Connection) -> list[UntoldRow]:
    """Return the running jobs with a walltime that their node does not know yet."""
    return [
        UntoldRow(job, attempt, tuple(types), walltime, head)
        for job, attempt, types, walltime, head in connection.execute(_UNTOLD, binary=True)
    ]


@set_wise
def told(connection: Connection, answers: Sequence[tuple[int, int, int]]) -> None:
    """Note that the nodes of (job, attempt) enforce a walltime of that many seconds; a later change is sent again."""
    if answers:
        jobs, attempts, seconds = ([answer[place] for answer in answers] for place in range(3))
        connection.execute(_TOLD, [jobs, attempts, seconds])


def tell_no_more(connection: Connection) -> None:
    """Note that nodes need no more messages about ended jobs."""
    connection.execute(_TELL_NO_MORE)


def _change(row: tuple[Any, ...]) -> PendingChange:
    change = PendingChange(*row)
    return replace(change, types=tuple(change.types))
