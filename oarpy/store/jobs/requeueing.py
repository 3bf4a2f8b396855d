"""Jobs that got resources, never ran there, and wait again.

A reservation keeps its resources: it goes on without the lost ones, or when they are back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oarpy.store.database import Connection
from oarpy.store.refusals import refusals_of, set_wise

# The time by which a late start had shortened a reservation is given back.
_AGAIN = """
    state = 'Waiting', final_state = NULL,
    moldable_id = CASE WHEN j.reservation_start IS NULL THEN NULL ELSE j.moldable_id END,
    walltime = CASE WHEN j.reservation_start IS NULL THEN NULL ELSE
        (SELECT m.walltime FROM moldable_descriptions m WHERE m.moldable_id = j.moldable_id) END
"""
_RESERVED = """
    INSERT INTO reserved_resources (job_id, resource_id, during, exclusive)
    SELECT a.job_id, a.resource_id, tstzrange(reservation_start, reservation_start + w.walltime), a.exclusive
    FROM waiting w JOIN assigned_resources a USING (job_id)
    WHERE w.reservation_start IS NOT NULL AND upper_inf(a.during)
"""

# Nothing was sent yet to nodes that are silent, Absent, Dead or at fault by now, so jobs to be launched there wait
# again.
_UNPLACE = f"""
    WITH waiting AS (
        UPDATE jobs j SET {_AGAIN}
        WHERE j.state = 'toLaunch' AND (%(jobs)s::bigint[] IS NULL OR j.job_id = ANY(%(jobs)s))
          AND EXISTS (
            SELECT FROM assigned_resources a JOIN resources r USING (resource_id)
                LEFT JOIN nodes n ON n.network_address = r.network_address AND n.channel = 'lost'
                    AND n.channel_since < now() - %(timeout)s * interval '1 second'
            WHERE a.job_id = j.job_id AND upper_inf(a.during)
              AND (r.state IN ('Absent', 'Dead') OR (r.state = 'Suspected' AND r.state_by IN ('launcher', 'node'))
                   OR (%(led)s AND n.network_address IS NOT NULL)))
        RETURNING j.job_id, j.reservation_start, j.walltime
    ), reserved AS ({_RESERVED})
    SELECT job_id FROM waiting
"""  # noqa: S608

_UNLAUNCHED = "SELECT job_id FROM jobs WHERE state = 'toLaunch'"

# Jobs that a node could not start, now that nothing of them is left there.
_REQUEUE = f"""
    WITH waiting AS (
        UPDATE jobs j SET left_nothing = true, {_AGAIN}
        WHERE j.job_id = ANY(%s) AND j.state = 'Finishing' AND j.final_state = 'Waiting'
        RETURNING j.job_id, j.reservation_start, j.walltime
    ), reserved AS ({_RESERVED})
    SELECT job_id FROM waiting
"""  # noqa: S608


_FAILED = "SELECT job_id, user_name, properties, reservation_start IS NOT NULL FROM jobs WHERE job_id = ANY(%s)"
_SET_PROPERTIES = "UPDATE jobs SET properties = %s WHERE job_id = %s"
_NODES_AMONG = """
    SELECT count(DISTINCT network_address) FROM resources
    WHERE resource_id = ANY(%s) AND type = 'default' AND state = 'Alive'
"""


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A job that could not be started: its condition on resources, and whether these were reserved for it."""

    id: int
    user: str
    properties: str
    reserved: bool


def failed(connection: Connection, jobs: Sequence[int]) -> list[FailedRow]:
    """Return the facts about jobs that could not be started."""
    return [FailedRow(*row) for row in connection.execute(_FAILED, [list(jobs)])]


def set_properties(connection: Connection, job: int, properties: str) -> None:
    """Change the condition that every resource of a job must meet."""
    connection.execute(_SET_PROPERTIES, [properties, job])


def nodes_among(connection: Connection, resources: Sequence[int]) -> int:
    """Return how many nodes have some of these resources, and are Alive."""
    row = connection.execute(_NODES_AMONG, [list(resources)]).fetchone()
    return int(row[0]) if row else 0


def unplace(connection: Connection, timeout: float, *, led: bool) -> list[int]:
    """Let jobs wait again which were about to be launched on resources that are Absent, Dead or at fault.

    While a launcher listens (``led``), also on nodes silent for ``timeout`` seconds.
    """
    if refusals_of(connection).any:
        return _unplace_some(connection, [row[0] for row in connection.execute(_UNLAUNCHED)], timeout, led)
    return _unplace(connection, None, timeout, led)


@set_wise
def _unplace_some(connection: Connection, jobs: Sequence[int], timeout: float, led: bool) -> list[int]:
    """Do so with these jobs."""
    return _unplace(connection, list(jobs), timeout, led)


def _unplace(connection: Connection, jobs: list[int] | None, timeout: float, led: bool) -> list[int]:
    """Do so with ``jobs`` (None: with all)."""
    return [row[0] for row in connection.execute(_UNPLACE, {"timeout": timeout, "led": led, "jobs": jobs})]


@set_wise
def requeue(connection: Connection, jobs: Sequence[int]) -> list[int]:
    """Let the jobs among ``jobs`` wait again that are Finishing for that; return them."""
    return [row[0] for row in connection.execute(_REQUEUE, [list(jobs)])] if jobs else []
