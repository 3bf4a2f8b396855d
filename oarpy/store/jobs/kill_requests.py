"""Asking the canceller to kill jobs, and the launcher to send them a signal; these modules do the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from psycopg.sql import SQL

from oarpy.store.database import Connection
from oarpy.store.events import log_request

GAVE_WAY = "BESTEFFORT_KILL"
"""The reason of the request, and the event, when a job is killed because others need its resources."""

NEEDED = "its resources are needed by a job that it gives way to"
"""That reason in words."""

OPEN_REQUEST: LiteralString = """
    (SELECT k.* FROM kill_requests k WHERE k.job_id = j.job_id AND k.state <> 'done' LIMIT 1)
"""
"""The open requests about job ``j``, to be joined: looked up, however few of them PostgreSQL expects."""

# One request for each job: asking again while the first is under way changes nothing. The exception is a request of a
# module: a user who deletes the job does not wait for its checkpoint, and does not want it submitted again.
_ASK = """
    INSERT INTO kill_requests AS k (job_id, requested_by, reason)
    SELECT id, %s, %s FROM unnest(%s::bigint[]) AS id
    ON CONFLICT (job_id) DO UPDATE
        SET state = CASE k.state WHEN 'decided' THEN 'decided' ELSE 'asked' END, requested_at = now(),
            requested_by = excluded.requested_by,
            reason = CASE k.state WHEN 'decided' THEN k.reason ELSE excluded.reason END, not_before = NULL
        WHERE k.state = 'done' OR k.requested_by IN ('metascheduler', 'monitor')
"""

# Live jobs, unless somebody has asked already.
_ASK_ONCE = """
    INSERT INTO kill_requests (job_id, requested_by, reason)
    SELECT j.job_id, %s, k.reason FROM unnest(%s::bigint[], %s::text[]) AS k(job_id, reason) JOIN jobs j USING (job_id)
    WHERE is_live(j.state)
    ORDER BY j.job_id
    ON CONFLICT (job_id) DO NOTHING
    RETURNING job_id
"""

# In no order: for that of jobs, PostgreSQL would walk through all that was ever held.
_HOLDERS = "SELECT job_id FROM assigned_resources WHERE resource_id = ANY(%s) AND (upper_inf(during) OR suspended)"

# Inner jobs that have begun, of containers that are to end and have no other piece that goes on. Step by step, and jobs
# are looked up by an array: when PostgreSQL counted rows there was nothing to end, and it would compare each with each.
_INSIDE: LiteralString = """
    WITH ending AS MATERIALIZED ({ending}), dying AS MATERIALIZED (
        SELECT c.job_id, CASE word WHEN 'container' THEN c.job_id::text ELSE substr(word, 11) END AS name
        FROM jobs c, unnest(c.types) AS word
        WHERE c.job_id = ANY (ARRAY(SELECT job_id FROM ending)) AND is_live(c.state) AND c.started_at IS NOT NULL
          AND (word = 'container' OR word LIKE 'container=%%')
    ), staying AS MATERIALIZED (
        SELECT CASE word WHEN 'container' THEN o.job_id::text ELSE substr(word, 11) END AS name
        FROM jobs o, unnest(o.types) AS word
        WHERE EXISTS (SELECT FROM dying) AND is_live(o.state) AND o.started_at IS NOT NULL
          AND (word = 'container' OR word LIKE 'container=%%') AND o.job_id NOT IN (SELECT job_id FROM ending)
    ), inner_jobs AS MATERIALIZED (
        SELECT i.job_id, substr(word, 7) AS name FROM jobs i, unnest(i.types) AS word
        WHERE EXISTS (SELECT FROM dying) AND is_live(i.state) AND i.state NOT IN ('Waiting', 'Hold')
          AND word LIKE 'inner=%%'
    )
    SELECT DISTINCT ON (i.job_id) i.job_id, 'its container, job ' || d.job_id || ', is killed'
    FROM dying d JOIN inner_jobs i USING (name)
    WHERE name NOT IN (SELECT name FROM staying)
    ORDER BY i.job_id, d.job_id
"""
_INSIDE_ASKED = SQL(_INSIDE).format(ending=SQL("SELECT job_id FROM kill_requests WHERE state <> 'done'"))
_INSIDE_GIVEN = SQL(_INSIDE).format(ending=SQL("SELECT unnest(%s::bigint[]) AS job_id"))

# One signal for each job, numbers as the kernel knows them.
_SIGNAL = """
    INSERT INTO signal_requests (job_id, signal, requested_by)
    SELECT id, signal, %s FROM unnest(%s::bigint[], %s::smallint[]) AS request (id, signal)
"""

# Since when jobs are Finishing, and where.
_FINISHING = """
    SELECT j.job_id, extract(epoch FROM now() - lower(l.during))::float8,
           coalesce(array_agg(DISTINCT r.network_address) FILTER (WHERE r.network_address <> ''), '{}')
    FROM jobs j
        JOIN job_state_logs l ON l.job_id = j.job_id AND upper_inf(l.during) AND l.state = 'Finishing'
        LEFT JOIN assigned_resources a ON a.job_id = j.job_id
        LEFT JOIN resources r USING (resource_id)
    WHERE j.job_id = ANY(%s) AND j.state = 'Finishing'
    GROUP BY j.job_id, l.during
    ORDER BY j.job_id
"""

# The processes that they left on their nodes are looked for when these are back.
_CLOSE = """
    UPDATE jobs SET ended_at = greatest(now(), submitted_at, started_at), left_nothing = true,
        state = CASE WHEN started_at IS NULL OR final_state = 'Waiting' THEN 'Error' ELSE final_state END
    WHERE job_id = ANY(%s) AND state = 'Finishing'
"""


def reason_of_kill(job: LiteralString, request: LiteralString) -> LiteralString:
    """Return the SQL expression that tells that, and why, a job is being killed; NULL for any other job.

    ``job`` names the job, ``request`` its request unless the request is done. A job at its walltime is ended by its
    nodes, without a request.
    """
    end = job + ".started_at + " + job + ".walltime + " + job + ".suspended_time"
    late = "CASE WHEN " + job + ".state = 'Running' AND " + end + " <= now() THEN 'Killing: its walltime is over' END"
    return "coalesce('Killing: ' || " + words_of_kill(request) + ", " + late + ")"


def in_words(reason: str) -> str:
    """Return the reason of a request for people."""
    return NEEDED if reason == GAVE_WAY else reason


def words_of_kill(request: LiteralString) -> LiteralString:
    """Return the SQL expression of :func:`in_words` for the row ``request``."""
    return "CASE " + request + ".reason WHEN '" + GAVE_WAY + "' THEN '" + NEEDED + "' ELSE " + request + ".reason END"


def finishing(connection: Connection, job_ids: Sequence[int]) -> list[tuple[int, float, list[str]]]:
    """Return the Finishing jobs among ``job_ids``: the job, the seconds since it is Finishing, its nodes."""
    return connection.execute(_FINISHING, [list(job_ids)]).fetchall()


def close(connection: Connection, job_ids: Sequence[int]) -> None:
    """Give Finishing jobs their final state, whatever their nodes say."""
    connection.execute(_CLOSE, [list(job_ids)])


def ask(connection: Connection, job_ids: Sequence[int], by: str, reason: str) -> None:
    """Ask for the end of the jobs, which are live; ``by`` is the user who asks."""
    connection.execute(_ASK, (by, reason, list(job_ids)))
    log_request(connection, job_ids, by, "FRAG_JOB_REQUEST")


def ask_once(connection: Connection, kills: Sequence[tuple[int, str]], by: str) -> tuple[int, ...]:
    """Ask for the end of the live jobs of (job, reason), and return the jobs whose end nobody had requested before."""
    if not kills:
        return ()
    values = (by, [job for job, _ in kills], [reason for _, reason in kills])
    return tuple(job for (job,) in connection.execute(_ASK_ONCE, values))


def ask_on_resources(connection: Connection, resource_ids: Sequence[int], by: str, reason: str) -> tuple[int, ...]:
    """Ask for the end of every job on the resources and return the ids for which the request is new."""
    holders = sorted({job for (job,) in connection.execute(_HOLDERS, [list(resource_ids)])})
    job_ids = ask_once(connection, [(job, reason) for job in holders], by)
    log_request(connection, job_ids, by, "FRAG_JOB_REQUEST")
    return job_ids


def ask_inside(connection: Connection) -> tuple[int, ...]:
    """Ask for the end of the inner jobs of containers that are being killed; return the ids for which that is new."""
    return ask_once(connection, connection.execute(_INSIDE_ASKED, ()).fetchall(), "canceller")


def inside(connection: Connection, job_ids: Sequence[int]) -> tuple[int, ...]:
    """Return the inner jobs that would end with these jobs."""
    return tuple(row[0] for row in connection.execute(_INSIDE_GIVEN, [list(job_ids)]))


def on_resources(connection: Connection, resource_ids: Sequence[int]) -> tuple[int, ...]:
    """Return the jobs that would end with the resources: the jobs on them, and the inner jobs of these."""
    holders = {job for (job,) in connection.execute(_HOLDERS, [list(resource_ids)])}
    return tuple(sorted(holders.union(inside(connection, sorted(holders)))))


def signal(connection: Connection, signals: Sequence[tuple[int, int]], by: str, event: str) -> None:
    """Ask for signals to be sent: ``(job id, signal number)`` each; ``event`` is the type logged."""
    job_ids = [job for job, _ in signals]
    connection.execute(_SIGNAL, (by, job_ids, [number for _, number in signals]))
    log_request(connection, job_ids, by, event)
