"""Suspending and resuming running jobs: the requests, the answers of nodes, and who holds the resources meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oarpy.store.database import Connection
from oarpy.store.events import NewEvent, log
from oarpy.store.refusals import set_wise


@dataclass(frozen=True, slots=True)
class PauseRow:
    """A job that is to be suspended, is, or is to go on. ``away``: others may hold its resources; ``owed``: not yet."""

    job: int
    attempt: int
    state: str
    types: tuple[str, ...]
    nodes: tuple[str, ...]
    away: bool
    owed: bool


# A user does not wait until a job that gives way has had its grace, and does not want it to go on by itself.
_ASK = """
    INSERT INTO suspend_requests AS r (job_id, requested_by) SELECT id, %s FROM unnest(%s::bigint[]) AS id
    ON CONFLICT (job_id) DO UPDATE SET requested_by = excluded.requested_by, not_before = NULL
        WHERE r.requested_by = 'metascheduler'
"""

# Those that run; best-effort jobs end, and so do jobs with resources that suspension does not free: the others may need
# just these. The launcher suspends those that are being launched once they run. One that has its resources again and is
# about to go on is asked when it runs. A grace begins with its signal, which is sent once.
_ASK_FOR_OTHERS = """
    WITH yielding AS (
        SELECT j.job_id, j.state, g.grace, g.grace_signal FROM jobs j CROSS JOIN LATERAL giving_way(j) g
        WHERE j.job_id = ANY(%(jobs)s) AND g.manner = 'suspend' AND NOT EXISTS (
            SELECT FROM assigned_resources a JOIN resources r USING (resource_id)
            WHERE a.job_id = j.job_id AND upper_inf(a.during) AND r.type <> ALL (%(types)s))
          AND (j.state IN ('toLaunch', 'Launching', 'Running')
            OR (j.state = 'Resuming' AND NOT EXISTS (
                SELECT FROM assigned_resources a WHERE a.job_id = j.job_id AND a.suspended)))
    ), asked AS (
        INSERT INTO suspend_requests (job_id, requested_by, not_before)
        SELECT job_id, 'metascheduler', CASE WHEN grace > 0 THEN now() + grace * interval '1 second' END FROM yielding
        WHERE state IN ('Launching', 'Running')
        ON CONFLICT (job_id) DO NOTHING
        RETURNING job_id
    ), signalled AS (
        INSERT INTO signal_requests (job_id, signal, requested_by)
        SELECT job_id, grace_signal, 'metascheduler' FROM asked JOIN yielding USING (job_id) WHERE grace > 0
    ), logged AS (
        INSERT INTO event_logs (type, job_id, description)
        SELECT 'GIVES_WAY', job_id, 'it is suspended' || CASE WHEN grace > 0 THEN ' in ' || grace || ' s' ELSE '' END
            || ' until a job that it gives way to needs its resources no more'
        FROM asked JOIN yielding USING (job_id)
    )
    SELECT job_id FROM yielding
"""

_PAUSES = """
    WITH paused AS (
        SELECT job_id FROM suspend_requests WHERE not_before IS NULL OR not_before <= now()
        UNION
        SELECT job_id FROM jobs WHERE state IN ('Suspended', 'Resuming')
    )
    SELECT j.job_id, j.attempt, j.state, j.types,
           array_agg(DISTINCT r.network_address) FILTER (WHERE r.type = 'default'),
           coalesce(bool_or(a.suspended), false), coalesce(bool_or(NOT a.suspended AND r.type = ANY(%s)), false)
    FROM paused
        JOIN jobs j USING (job_id)
        LEFT JOIN assigned_resources a ON a.job_id = j.job_id AND (upper_inf(a.during) OR a.suspended)
        LEFT JOIN resources r USING (resource_id)
    GROUP BY j.job_id
"""
_FORGET = """
    DELETE FROM suspend_requests s USING jobs j
    WHERE j.job_id = s.job_id AND j.state NOT IN ('Launching', 'Running')
"""

_SUSPEND = """
    WITH stopped AS (
        UPDATE jobs SET state = 'Suspended' WHERE job_id = ANY(%(jobs)s) AND state = 'Running' RETURNING job_id
    ), asked AS (
        DELETE FROM suspend_requests WHERE job_id = ANY(%(jobs)s) RETURNING job_id, requested_by
    ), logged AS (
        INSERT INTO event_logs (type, job_id, description)
        SELECT 'JOB_SUSPENDED', job_id, 'its processes are stopped on all its nodes' FROM stopped
    )
    SELECT job_id FROM stopped JOIN asked USING (job_id) WHERE requested_by = 'metascheduler'
"""
# Who gave way goes on as soon as its resources are free again.
_WANT_BACK = "UPDATE jobs SET state = 'Resuming' WHERE job_id = ANY(%s) AND state = 'Suspended'"
# After the move: only while a job is Suspended may others have its resources.
_FREE = """
    UPDATE assigned_resources a SET suspended = true, during = held_until(a.during, statement_timestamp())
    FROM resources r, jobs j
    WHERE a.job_id = ANY(%(jobs)s) AND upper_inf(a.during) AND r.resource_id = a.resource_id AND r.type = ANY(%(types)s)
      AND j.job_id = a.job_id AND j.state = 'Suspended'
"""
# What its resources gave it: it has these amounts again with them, by a trigger.
_FREE_AMOUNTS = """
    UPDATE assigned_amounts m
    SET during = tstzrange(lower(m.during), greatest(statement_timestamp(), lower(m.during) + interval '1 microsecond'))
    FROM consumables c
    WHERE m.job_id = ANY(%s) AND m.consumable = ANY(%s) AND c.name = m.consumable AND upper_inf(m.during) AND EXISTS (
        SELECT FROM assigned_resources a JOIN resources r USING (resource_id)
        WHERE a.job_id = m.job_id AND a.suspended AND to_jsonb(r) ->> c.level = m.block)
"""

# The constraint on exclusive holders has the last word: it holds them from the statement's own time on, as a job that
# starts does.
_GIVE_BACK = """
    UPDATE assigned_resources a
    SET suspended = false,
        during = a.during + tstzmultirange(tstzrange(greatest(statement_timestamp(), upper(a.during)), NULL))
    FROM jobs j
    WHERE a.job_id = ANY(%s) AND a.suspended AND j.job_id = a.job_id AND j.state = 'Resuming'
"""

_RESUME = """
    WITH going AS (
        UPDATE jobs j SET state = 'Running' WHERE job_id = ANY(%s) AND state = 'Resuming'
          AND NOT EXISTS (SELECT FROM assigned_resources a WHERE a.job_id = j.job_id AND a.suspended)
        RETURNING job_id
    )
    INSERT INTO event_logs (type, job_id, description)
    SELECT 'JOB_RESUMED', job_id, 'it goes on on all its nodes' FROM going
"""

_STAY = """
    WITH said AS (
        SELECT * FROM unnest(%s::bigint[], %s::text[]) AS s(job_id, detail)
    ), stays AS (
        UPDATE jobs j SET state = 'Suspended' FROM said WHERE j.job_id = said.job_id AND j.state = 'Resuming'
        RETURNING j.job_id
    )
    INSERT INTO event_logs (type, job_id, description)
    SELECT 'RESUME_SCRIPT_ERROR', job_id, 'it stays suspended: ' || detail FROM said JOIN stays USING (job_id)
"""


def ask(connection: Connection, jobs: Sequence[int], by: str) -> None:
    """Ask for running jobs to be suspended now, whatever a grace that they were given."""
    if jobs:
        connection.execute(_ASK, [by, list(jobs)])


def ask_for_others(connection: Connection, jobs: Sequence[int], types: Sequence[str]) -> set[int]:
    """Ask for those of ``jobs`` to be suspended that give way so, after their grace; return them.

    Jobs with resources of other types than ``types`` are left out: suspension does not free these.
    """
    return {row[0] for row in connection.execute(_ASK_FOR_OTHERS, {"jobs": list(jobs), "types": list(types)})}


def pauses(connection: Connection, types: Sequence[str]) -> list[PauseRow]:
    """Return the jobs that are suspended, or were asked to be, whatever became of them.

    Resources of ``types`` are given to others.
    """
    return [
        PauseRow(job, attempt, state, tuple(words), tuple(nodes or ()), away, owed)
        for job, attempt, state, words, nodes, away, owed in connection.execute(_PAUSES, [list(types)], binary=True)
    ]


def forget(connection: Connection) -> None:
    """Delete the requests for jobs that do not run any more."""
    connection.execute(_FORGET)


@set_wise
def suspend(connection: Connection, jobs: Sequence[int], types: Sequence[str], amounts: Sequence[str]) -> None:
    """Record that jobs are stopped on all their nodes.

    Others may have their resources of these types, and their amounts of the consumables ``amounts`` on the blocks of
    these resources.
    """
    if jobs:
        gave_way = [row[0] for row in connection.execute(_SUSPEND, {"jobs": list(jobs)})]
        connection.execute(_FREE, {"jobs": list(jobs), "types": list(types)})
        if amounts:
            connection.execute(_FREE_AMOUNTS, [list(jobs), list(amounts)])
        if gave_way:
            connection.execute(_WANT_BACK, [gave_way])


@set_wise
def give_back(connection: Connection, jobs: Sequence[int]) -> None:
    """Give jobs that are to go on their resources back.

    Raises ``psycopg.errors.ExclusionViolation`` when another job holds one of them.
    """
    if jobs:
        connection.execute(_GIVE_BACK, [list(jobs)])


@set_wise
def resume(connection: Connection, jobs: Sequence[int]) -> None:
    """Record that resumed jobs, which have their resources again, run on all their nodes."""
    if jobs:
        connection.execute(_RESUME, [list(jobs)])


@set_wise
def stay(connection: Connection, jobs: Sequence[tuple[int, str]]) -> None:
    """Suspend jobs again, (job, reason) each, that were to be resumed."""
    if jobs:
        connection.execute(_STAY, [list(column) for column in zip(*jobs, strict=True)])


@set_wise
def note_failures(connection: Connection, jobs: Sequence[tuple[int, str]]) -> None:
    """Record how the site's program for suspended jobs failed: (job, detail)."""
    log(connection, (NewEvent("SUSPEND_SCRIPT_ERROR", detail, job) for job, detail in jobs))
