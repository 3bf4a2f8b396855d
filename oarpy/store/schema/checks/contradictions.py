"""Rows that contradict each other, for ``oarpy db check``: each with its cure.

Constraints look at one row, and triggers at the moment of a change. So an admin with SQL may still write impossible
rows, and a restore may bring them back. Only the admin knows which of two rows is right, so nothing is mended here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import psycopg
from sqlalchemy import Connection, text

from oarpy import slices
from oarpy.model.errors import OarpyError
from oarpy.model.job_types import TYPES, read_types, split_word
from oarpy.store.schema.checks import grid_contradictions, project_contradictions

_HOLDING = "('toAckReservation', 'toLaunch', 'Launching', 'Running', 'Suspended', 'Resuming', 'Finishing', 'toError')"
_ON_NODES = "('toLaunch', 'Launching', 'Running', 'Suspended', 'Resuming')"


def _given_back(table: str, present: str, span: str) -> str:
    """Return the SQL for the cure that ends job ``j``'s resources in ``table``; those from before its end stay."""
    return f"""
        CASE WHEN is_live(j.state) THEN format('DELETE FROM {table} WHERE job_id = %s AND ({present})', j.job_id)
        ELSE format('BEGIN; SET LOCAL oarpy.rewrite_history = on;'
                    ' DELETE FROM {table} WHERE job_id = %1$s AND ({present}) AND lower(during) >= %2$L;'
                    ' UPDATE {table} SET {span} WHERE job_id = %1$s AND ({present}); COMMIT', j.job_id, j.ended_at)
        END
    """


_RESOURCES_BACK = _given_back(
    "assigned_resources",
    "upper_inf(during) OR suspended",
    "suspended = false, during = during * tstzmultirange(tstzrange(NULL, %2$L))",
)
_AMOUNTS_BACK = _given_back("assigned_amounts", "upper_inf(during)", "during = during * tstzrange(NULL, %2$L)")

# Each: the contradiction, and its cure. All but the last few look only at live jobs, or at present holdings.
_QUERIES = (
    # Holders
    f"""
    SELECT format('job %s is %s and holds %s resources', j.job_id, state, count(*)), {_RESOURCES_BACK}
    FROM assigned_resources a JOIN jobs j ON j.job_id = a.job_id
    WHERE (upper_inf(a.during) OR a.suspended) AND j.state NOT IN {_HOLDING} GROUP BY j.job_id ORDER BY j.job_id
    """,
    f"""
    SELECT format('job %s is %s and holds no resources', job_id, state), format('oardel %s', job_id)
    FROM jobs j
    WHERE state IN {_ON_NODES} AND NOT EXISTS (
        SELECT FROM assigned_resources a WHERE a.job_id = j.job_id AND (upper_inf(a.during) OR a.suspended))
    ORDER BY job_id
    """,
    f"""
    SELECT format('job %s is %s and has given resources back', j.job_id, state),
           format('BEGIN; SET LOCAL oarpy.rewrite_history = on;'
                  ' UPDATE assigned_resources SET suspended = false WHERE job_id = %s AND suspended; COMMIT', j.job_id)
    FROM assigned_resources a JOIN jobs j ON j.job_id = a.job_id
    WHERE a.suspended AND j.state IN {_HOLDING} AND j.state NOT IN ('Suspended', 'Resuming', 'Finishing')
    GROUP BY j.job_id ORDER BY j.job_id
    """,
    f"""
    SELECT format('job %s is %s and holds %s of %s on %s', job_id, state, amount, consumable, block), {_AMOUNTS_BACK}
    FROM assigned_amounts a JOIN jobs j USING (job_id)
    WHERE upper_inf(a.during) AND j.state NOT IN {_HOLDING} ORDER BY job_id, consumable, block
    """,
    """
    SELECT format('%s of %s on %s counts as held, jobs hold %s', c.held, c.consumable, c.block,
                  coalesce(sum(a.amount), 0)),
           format('UPDATE consumable_capacities SET held = %s WHERE (consumable, block) = (%L, %L)',
                  coalesce(sum(a.amount), 0), c.consumable, c.block)
    FROM consumable_capacities c
        LEFT JOIN assigned_amounts a ON (a.consumable, a.block) = (c.consumable, c.block) AND upper_inf(a.during)
    GROUP BY c.consumable, c.block HAVING c.held <> coalesce(sum(a.amount), 0) ORDER BY c.consumable, c.block
    """,
    # Jobs that grow and shrink. States that the next pass and the launcher settle count only after a minute.
    """
    SELECT format('extension %s is %s, and job %s is %s', extension_id, e.state, job_id, j.state),
           format('UPDATE extensions SET state = ''Over'' WHERE extension_id = %s', extension_id)
    FROM extensions e JOIN jobs j USING (job_id)
    WHERE e.state IN ('Waiting', 'Granting', 'Granted') AND NOT is_live(j.state)
      AND j.ended_at < now() - interval '1 minute' ORDER BY extension_id
    """,
    """
    SELECT format('resize %s is open, and job %s is %s', resize_id, job_id, j.state),
           format('UPDATE resizes SET done_at = now() WHERE resize_id = %s', resize_id)
    FROM resizes r JOIN jobs j USING (job_id)
    WHERE r.done_at IS NULL AND NOT is_live(j.state) AND j.ended_at < now() - interval '1 minute' ORDER BY resize_id
    """,
    """
    SELECT format('extension %s is Granting, and no node is told', extension_id),
           format('UPDATE extensions SET state = ''Granted'' WHERE extension_id = %s', extension_id)
    FROM extensions e JOIN jobs j USING (job_id)
    WHERE e.state = 'Granting' AND is_live(j.state)
      AND NOT EXISTS (SELECT FROM resizes r WHERE r.extension_id = e.extension_id AND r.done_at IS NULL)
    ORDER BY extension_id
    """,
    """
    SELECT format('job %s holds %s resources by extension %s, which is %s', a.job_id, count(*), a.extension_id,
                  CASE WHEN e.extension_id IS NULL THEN 'none' WHEN e.job_id <> a.job_id THEN 'that of another job'
                       ELSE e.state END),
           format('UPDATE assigned_resources SET extension_id = NULL, reclaim_at = NULL'
                  ' WHERE job_id = %s AND extension_id = %s', a.job_id, a.extension_id)
    FROM assigned_resources a LEFT JOIN extensions e USING (extension_id)
    WHERE (upper_inf(a.during) OR a.suspended) AND a.extension_id IS NOT NULL
      AND (e.extension_id IS NULL OR e.job_id <> a.job_id OR e.state NOT IN ('Granting', 'Granted'))
      AND NOT EXISTS (SELECT FROM resizes r WHERE r.job_id = a.job_id AND r.done_at IS NULL AND r.kind <> 'grant'
                        AND a.resource_id = ANY(r.resource_ids))
    GROUP BY a.job_id, a.extension_id, e.extension_id ORDER BY a.job_id
    """,
    # Reservations
    """
    SELECT format('reservation %s was accepted, and no resources are reserved for it', job_id),
           format('UPDATE jobs SET reservation_state = ''toSchedule'' WHERE job_id = %s', job_id)
    FROM jobs j
    WHERE state IN ('Waiting', 'Hold') AND reservation_state = 'Scheduled'
      AND NOT EXISTS (SELECT FROM reserved_resources r WHERE r.job_id = j.job_id)
      AND NOT EXISTS (SELECT FROM kill_requests k WHERE k.job_id = j.job_id AND k.state <> 'done')
    ORDER BY job_id
    """,
    """
    SELECT format('job %s is no accepted reservation that waits, and resources are reserved for it', j.job_id),
           format('DELETE FROM reserved_resources WHERE job_id = %s', j.job_id)
    FROM reserved_resources r JOIN jobs j ON j.job_id = r.job_id
    WHERE j.state NOT IN ('Waiting', 'Hold', 'toAckReservation') OR j.reservation_state IS DISTINCT FROM 'Scheduled'
    GROUP BY j.job_id ORDER BY j.job_id
    """,
    """
    SELECT format('reservation %s begins at %s, its resources are reserved for other times',
                  j.job_id, reservation_start),
           format('BEGIN; DELETE FROM reserved_resources WHERE job_id = %1$s; '
                  'UPDATE jobs SET reservation_state = ''toSchedule'' WHERE job_id = %1$s; COMMIT', j.job_id)
    FROM reserved_resources r JOIN jobs j ON j.job_id = r.job_id
    WHERE j.state IN ('Waiting', 'Hold') AND j.reservation_state = 'Scheduled'
      AND (lower(r.during) <> j.reservation_start OR upper(r.during) < j.reservation_start + j.walltime)
    GROUP BY j.job_id ORDER BY j.job_id
    """,
    """
    SELECT format('reservation %s has no walltime, or no alternative of its own', job_id),
           format('BEGIN; DELETE FROM reserved_resources WHERE job_id = %1$s; '
                  'UPDATE jobs SET reservation_state = ''toSchedule'' WHERE job_id = %1$s; COMMIT', job_id)
    FROM jobs j
    WHERE state IN ('Waiting', 'Hold') AND reservation_state = 'Scheduled' AND (walltime IS NULL OR NOT EXISTS (
        SELECT FROM moldable_descriptions m
        WHERE m.moldable_id = j.moldable_id AND m.submission_id = j.submission_id))
    ORDER BY job_id
    """,
    # Jobs
    """
    SELECT format('job %s waits and asks for nothing: its request is gone', job_id), format('oardel %s', job_id)
    FROM jobs j
    WHERE state IN ('Waiting', 'Hold') AND NOT EXISTS (
        SELECT FROM moldable_descriptions m JOIN resource_groups g USING (moldable_id)
            JOIN resource_descriptions d USING (group_id)
        WHERE m.submission_id = j.submission_id)
    ORDER BY job_id
    """,
    f"""
    SELECT format('job %s runs by alternative %s, which is of another submission', job_id, j.moldable_id),
           format('oardel %s', job_id)
    FROM jobs j JOIN moldable_descriptions m USING (moldable_id)
    WHERE state IN {_ON_NODES} AND m.submission_id <> j.submission_id ORDER BY job_id
    """,
    """
    SELECT format('job %s (%s) was submitted in the future, at %s', job_id, state, submitted_at),
           format('UPDATE jobs SET submitted_at = now() WHERE job_id = %s', job_id)
    FROM jobs WHERE is_live(state) AND submitted_at > now() + interval '1 minute' ORDER BY job_id
    """,
    """
    SELECT format('job %s (%s) began in the future, at %s', job_id, state, started_at),
           format('UPDATE jobs SET started_at = now() WHERE job_id = %s', job_id)
    FROM jobs WHERE is_live(state) AND started_at > now() + interval '1 minute' ORDER BY job_id
    """,
    """
    SELECT format('job %s (%s) began at %s, before it was submitted at %s', job_id, state, started_at, submitted_at),
           format('UPDATE jobs SET started_at = submitted_at WHERE job_id = %s', job_id)
    FROM jobs WHERE is_live(state) AND started_at < submitted_at ORDER BY job_id
    """,
    """
    SELECT format('jobs %s wait for each other', string_agg(job_id::text, ', ' ORDER BY job_id)),
           format('DELETE FROM job_dependencies WHERE job_id = %s', min(job_id))
    FROM (
        WITH RECURSIVE way AS (
            SELECT d.job_id, d.required_job_id FROM job_dependencies d JOIN jobs j USING (job_id)
            WHERE j.state IN ('Waiting', 'Hold')
            UNION
            SELECT w.job_id, d.required_job_id FROM way w
                JOIN job_dependencies d ON d.job_id = w.required_job_id JOIN jobs j ON j.job_id = d.job_id
            WHERE j.state IN ('Waiting', 'Hold')
        )
        SELECT job_id FROM way WHERE job_id = required_job_id
    ) AS circles HAVING count(*) > 0
    """,
    # A node's clock may be some way off: its time of an end may be before the database's time of the start.
    """
    SELECT format('job %s (%s) stood still for %s, longer than it has run', job_id, state, suspended_time),
           format('BEGIN; SET LOCAL oarpy.rewrite_history = on;'
                  ' UPDATE jobs SET suspended_time = ''0'' WHERE job_id = %s; COMMIT', job_id)
    FROM jobs
    WHERE suspended_time > interval '0'
      AND suspended_time > coalesce(ended_at, now()) - coalesce(started_at, now()) + interval '5 minutes'
    ORDER BY job_id
    """,
    # Logs and answers
    """
    SELECT format('job %s is %s, the log of its states says %s', job_id, j.state, coalesce(l.state, 'nothing')),
           format('oardel %s', job_id)
    FROM jobs j LEFT JOIN job_state_logs l USING (job_id)
    WHERE is_live(j.state) AND (l.job_id IS NULL OR upper_inf(l.during) AND is_live(l.state) AND l.state <> j.state)
    ORDER BY job_id
    """,
    """
    SELECT format('job %s is %s and has a prediction', job_id, j.state),
           format('DELETE FROM gantt_predictions WHERE job_id = %s', job_id)
    FROM gantt_predictions g JOIN jobs j USING (job_id)
    WHERE j.state NOT IN ('Waiting', 'Hold', 'toAckReservation') ORDER BY job_id
    """,
    """
    SELECT format('resource %s is %s, the log of its states says %s', resource_id, r.state, l.state),
           format('BEGIN; SET LOCAL oarpy.rewrite_history = on;'
                  ' UPDATE resource_state_logs SET state = %L WHERE resource_id = %s AND upper_inf(during); COMMIT',
                  r.state, resource_id)
    FROM resources r JOIN resource_state_logs l USING (resource_id)
    WHERE upper_inf(l.during) AND l.state <> r.state ORDER BY resource_id
    """,
)
_TYPES = "SELECT job_id, types FROM jobs WHERE is_live(state) AND types <> '{}' ORDER BY job_id"


def contradictions(connection: Connection) -> Iterator[str]:
    """Yield the contradictions, one line each with its cure."""
    for query in (*_QUERIES, *project_contradictions.QUERIES, *grid_contradictions.QUERIES):
        for wrong, mended in connection.exec_driver_sql(query, execution_options={"no_parameters": True}):
            yield f"{wrong}: {mended}"
    for find in slices.things(slices.CONTRADICTIONS):
        yield from find(cast("psycopg.Connection[Any]", connection.connection.driver_connection))
    for job, types in connection.execute(text(_TYPES)):
        if fault := _fault(types):
            yield f"job {job} has a type that cannot be read, {fault}: UPDATE jobs SET types = ... WHERE job_id = {job}"


def _fault(types: list[str]) -> str:
    """Return the fault in the types of a job; empty when they are all well formed."""
    try:
        read_types(types).dates()
    except OarpyError as error:
        return str(error)
    known = ((word, TYPES.get(split_word(word)[0])) for word in types)
    return next((fault for word, kind in known if kind is not None and (fault := kind.fault(word))), "")
