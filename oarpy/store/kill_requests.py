"""Asking the canceller to kill jobs, and the launcher to send them a signal. The modules do the rest."""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.store.database import Connection

# One request a job: asking again while the first is under way changes nothing, unless that one leaves the job time for
# its checkpoint, which whoever deletes the job does not.
_ASK = """
    INSERT INTO kill_requests (job_id, requested_by, reason)
    SELECT id, %s, %s FROM unnest(%s::bigint[]) AS id
    ON CONFLICT (job_id) DO UPDATE
        SET state = 'asked', requested_at = now(), requested_by = excluded.requested_by, reason = excluded.reason,
            not_before = NULL
        WHERE kill_requests.state = 'done' OR (kill_requests.state = 'asked' AND kill_requests.not_before IS NOT NULL)
"""

# Live jobs that hold one of these resources, unless somebody has asked already.
_ASK_ON_RESOURCES = """
    INSERT INTO kill_requests (job_id, requested_by, reason)
    SELECT DISTINCT a.job_id, %s, %s
    FROM assigned_resources a JOIN jobs j ON j.job_id = a.job_id
    WHERE a.resource_id = ANY(%s) AND upper_inf(a.during) AND j.state NOT IN ('Terminated', 'Error')
    ON CONFLICT (job_id) DO NOTHING
    RETURNING job_id
"""

# Inner jobs that have begun, of containers that are being killed and have no other piece that goes on.
_ASK_INSIDE = """
    WITH dying AS (
        SELECT c.job_id, CASE word WHEN 'container' THEN c.job_id::text ELSE substr(word, 11) END AS name
        FROM kill_requests k JOIN jobs c ON c.job_id = k.job_id, unnest(c.types) AS word
        WHERE k.state <> 'done' AND c.state NOT IN ('Terminated', 'Error') AND c.started_at IS NOT NULL
          AND (word = 'container' OR word LIKE 'container=%%')
    )
    INSERT INTO kill_requests (job_id, requested_by, reason)
    SELECT DISTINCT ON (i.job_id) i.job_id, 'canceller', 'its container, job ' || d.job_id || ', is killed'
    FROM dying d JOIN jobs i ON i.types @> ARRAY['inner=' || d.name]
    WHERE i.state NOT IN ('Terminated', 'Error') AND i.state NOT IN ('Waiting', 'Hold')
      AND NOT EXISTS (
          SELECT FROM jobs o
          WHERE o.state NOT IN ('Terminated', 'Error') AND o.started_at IS NOT NULL
            AND (o.types @> ARRAY['container=' || d.name] OR o.types @> ARRAY['container'] AND o.job_id::text = d.name)
            AND NOT EXISTS (SELECT FROM kill_requests k WHERE k.job_id = o.job_id AND k.state <> 'done'))
    ORDER BY i.job_id, d.job_id
    ON CONFLICT (job_id) DO NOTHING
    RETURNING job_id
"""

# One signal for each job, numbers as the kernel knows them.
_SIGNAL = """
    INSERT INTO signal_requests (job_id, signal, requested_by)
    SELECT id, signal, %s FROM unnest(%s::bigint[], %s::smallint[]) AS request (id, signal)
"""

# What was asked, in the log of events people read.
_LOG = """
    INSERT INTO event_logs (type, job_id, description)
    SELECT %s, id, %s FROM unnest(%s::bigint[]) AS id
"""


def ask(connection: Connection, job_ids: Sequence[int], by: str, reason: str) -> None:
    """Ask for the end of the jobs, which are live; ``by`` is who asks."""
    connection.execute(_ASK, (by, reason, list(job_ids)))
    log(connection, job_ids, by, "FRAG_JOB_REQUEST")


def ask_on_resources(connection: Connection, resource_ids: Sequence[int], by: str, reason: str) -> tuple[int, ...]:
    """Ask for the end of every job on the resources and return the ids of those not asked for before."""
    rows = connection.execute(_ASK_ON_RESOURCES, (by, reason, list(resource_ids))).fetchall()
    job_ids = tuple(sorted(int(row[0]) for row in rows))
    log(connection, job_ids, by, "FRAG_JOB_REQUEST")
    return job_ids


def ask_inside(connection: Connection) -> tuple[int, ...]:
    """Ask for the end of the inner jobs of containers that are being killed; return the ids of the new ones."""
    rows = connection.execute(_ASK_INSIDE, ()).fetchall()
    return tuple(int(row[0]) for row in rows)


def signal(connection: Connection, signals: Sequence[tuple[int, int]], by: str, event: str) -> None:
    """Ask for signals to be sent: ``(job id, signal number)`` each; ``event`` is the type logged."""
    job_ids = [job for job, _ in signals]
    connection.execute(_SIGNAL, (by, job_ids, [number for _, number in signals]))
    log(connection, job_ids, by, event)


def log(connection: Connection, job_ids: Sequence[int], by: str, event: str) -> None:
    """Note in the events of the jobs that ``by`` asked for ``event``."""
    if job_ids:
        connection.execute(_LOG, (event, f"asked by {by}", list(job_ids)))
