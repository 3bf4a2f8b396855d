"""The verdicts of jobs whenever they changed: why a job waited at any moment, and which job went before which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from oarpy.model.reasons import Reason, local_instant, reason_json, reason_of, sentence
from oarpy.store.database import Connection


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """A verdict on a job that a pass wrote at ``at`` (epoch seconds), and the job's place in its order then.

    ``start`` is the start predicted then. ``key`` is the sort key of ``order``, least first, empty when it is not
    known. ``passed`` are the jobs before it in the order that still waited when it was started, as an
    ``int8multirange``.
    """

    job: int
    at: float
    verdict: str
    reason: Reason
    start: float | None
    queue: str
    priority: int
    order: str
    key: tuple[float, ...]
    passed: str = "{}"


_NOTE = """
    INSERT INTO verdict_changes
        (job_id, at, verdict, reason, reason_data, start_time, queue_name, queue_priority, queue_order, order_key,
         passed)
    SELECT job_id, statement_timestamp(), verdict, reason, data::jsonb, to_timestamp(start_time), queue_name, priority,
           queue_order, order_key::float8[], passed::int8multirange
    FROM unnest(%(jobs)s::bigint[], %(verdicts)s::text[], %(reasons)s::text[], %(data)s::text[],
                %(starts)s::float8[], %(queues)s::text[], %(priorities)s::int[], %(orders)s::text[], %(keys)s::text[],
                %(passed)s::text[])
        AS v(job_id, verdict, reason, data, start_time, queue_name, priority, queue_order, order_key, passed)
"""

_LAST = """
    SELECT DISTINCT ON (v.job_id) v.job_id, v.verdict
    FROM verdict_changes v JOIN jobs j USING (job_id)
    WHERE j.state IN ('Hold', 'Waiting', 'toAckReservation') ORDER BY v.job_id, v.at DESC
"""

_AT = """
    SELECT job_id, extract(epoch FROM at)::float8, verdict, reason, reason_data::text,
           extract(epoch FROM start_time)::float8, queue_name, queue_priority, queue_order, order_key, passed::text
    FROM verdict_changes
    WHERE job_id = ANY(%(jobs)s) AND at <= to_timestamp(%(at)s) AND (NOT %(starts)s OR verdict = 'starts')
    ORDER BY job_id, at
"""

_PASSED = "SELECT %s::int8multirange @> %s::bigint"

_PRUNE = "DELETE FROM verdict_changes WHERE at < %s"


def note(connection: Connection, rows: Sequence[VerdictRow]) -> None:
    """Keep verdicts that are new."""
    if rows:
        connection.execute(
            _NOTE,
            {
                "jobs": [row.job for row in rows],
                "verdicts": [str(row.verdict) for row in rows],
                "reasons": [sentence(row.reason, local_instant) for row in rows],
                "data": [reason_json(row.reason) for row in rows],
                "starts": [None if row.start is None else min(float(row.start), _LAST_INSTANT) for row in rows],
                "queues": [row.queue for row in rows],
                "priorities": [row.priority for row in rows],
                "orders": [row.order for row in rows],
                "keys": ["{" + ",".join(repr(float(part)) for part in row.key) + "}" for row in rows],
                "passed": [row.passed for row in rows],
            },
        )


def last_verdicts(connection: Connection) -> dict[int, str]:
    """Return the last verdict that is kept of each waiting job."""
    return dict(connection.execute(_LAST).fetchall())


def verdict_at(connection: Connection, jobs: Sequence[int], moment: float) -> dict[int, VerdictRow]:
    """Return the verdict that held on each of these jobs at ``moment``, where one is kept."""
    return _latest(connection, jobs, moment, starts=False)


def starts_of(connection: Connection, jobs: Sequence[int], moment: float) -> dict[int, VerdictRow]:
    """Return the last decision to start each of these jobs until ``moment``, where one is kept."""
    return _latest(connection, jobs, moment, starts=True)


def was_passed(connection: Connection, start: VerdictRow, job: int) -> bool:
    """Tell whether ``job`` was before the started one in the order, and still waited."""
    return connection.execute(_PASSED, [start.passed, job]).fetchone() == (True,)


def prune(connection: Connection, horizon: datetime) -> int:
    """Remove verdicts from before ``horizon``; return the number of removed rows."""
    return connection.execute(_PRUNE, [horizon]).rowcount


def _latest(connection: Connection, jobs: Sequence[int], moment: float, *, starts: bool) -> dict[int, VerdictRow]:
    rows = connection.execute(_AT, {"jobs": list(jobs), "at": moment, "starts": starts})
    return {
        job: VerdictRow(job, at, verdict, reason_of(text, data), start, queue, priority, order, tuple(key), passed)
        for job, at, verdict, text, data, start, queue, priority, order, key, passed in rows
    }


_LAST_INSTANT = 32_503_680_000 - 1
"""Epoch seconds: the database keeps no later one."""
