"""Jobs that nodes ran and a restored database has lost: for people, and so that none is started a second time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oarpy.store.database import Connection
from oarpy.store.refusals import set_wise


class RememberedJob(NamedTuple):
    """An attempt at a job that a node remembers. Instants are epoch seconds, None when they are not known (yet)."""

    job: int
    attempt: int
    user: str
    resources: int
    began: float | None
    ended: float | None
    status: int | None
    outcome: str


class BegunJob(NamedTuple):
    """A job that waits although a node has begun it, its types, and a text about that."""

    job: int
    types: tuple[str, ...]
    text: str


class LateEnd(NamedTuple):
    """The end, at ``ended`` (epoch seconds), of an attempt that ran on when the database had lost it."""

    job: int
    attempt: int
    node: str
    ended: float
    status: int | None
    outcome: str


# The (job, attempt) among a node's records that the database has lost: numbers that it never gave or has forgotten,
# and attempts that it does not know. A job that ended before the last write of the database is history that the
# database may have given away. Instants are compared with a margin, because the node has a clock of its own.
_LOST = """
    WITH told AS (
        SELECT * FROM unnest(%(jobs)s::bigint[], %(attempts)s::integer[], %(users)s::text[], %(resources)s::integer[],
                             %(begins)s::float8[], %(ends)s::float8[], %(statuses)s::integer[], %(outcomes)s::text[])
            AS t(job_id, attempt, user_name, resources, began, ended, status, outcome)
    ), g AS (
        SELECT * FROM generations ORDER BY generation DESC LIMIT 1
    ), lost AS (
        SELECT t.*, g.generation FROM g, told t LEFT JOIN jobs j USING (job_id)
        WHERE t.began IS NOT NULL AND (
               EXISTS (SELECT FROM generations x WHERE t.job_id > x.last_job AND t.job_id <= x.next_job)
                   AND j.job_id IS NULL
            OR t.attempt > j.attempt
            OR t.attempt < j.attempt AND to_timestamp(t.began) >= g.lost_from - interval '1 second'
            OR to_timestamp(t.began) < j.submitted_at - interval '5 seconds')
    )
    INSERT INTO lost_jobs (job_id, attempt, network_address, generation, user_name, resources, began_at, ended_at,
                           exit_status, outcome)
    SELECT job_id, attempt, %(node)s, generation, nullif(user_name, ''), resources, least(to_timestamp(began), now()),
           CASE WHEN ended IS NOT NULL THEN least(to_timestamp(ended), now()) END, status, outcome
    FROM lost
    ON CONFLICT (job_id, attempt, network_address) DO NOTHING
    RETURNING job_id, attempt
"""
# Jobs that wait, and that a node has begun without the knowledge of the database.
_BEGUN = """
    SELECT DISTINCT ON (l.job_id) l.job_id, j.types, concat(
        'it ran on ', l.network_address, coalesce(' from ' || date_trunc('second', l.began_at), ''),
        coalesce(' to ' || date_trunc('second', l.ended_at), ''), ', and the database has lost what came of it')
    FROM lost_jobs l JOIN jobs j USING (job_id)
    WHERE l.network_address = %s AND l.job_id = ANY(%s)
        AND j.state IN ('Waiting', 'Hold', 'toLaunch', 'toAckReservation')
    ORDER BY l.job_id, l.attempt DESC
"""
_TOLD = "UPDATE nodes SET recalled = %s WHERE network_address = %s"
_ENDED = """
    UPDATE lost_jobs l SET ended_at = least(to_timestamp(e.ended), now()), exit_status = e.status, outcome = e.outcome
    FROM unnest(%s::bigint[], %s::integer[], %s::text[], %s::float8[], %s::integer[], %s::text[])
        AS e(job_id, attempt, node, ended, status, outcome)
    WHERE (l.job_id, l.attempt, l.network_address) = (e.job_id, e.attempt, e.node) AND l.ended_at IS NULL
"""


def record(
    connection: Connection, node: str, generation: int, remembered: Sequence[RememberedJob]
) -> frozenset[tuple[int, int]]:
    """Record which (job, attempt) ``node`` remembers and the database has lost, for this generation; return them."""
    names = ("jobs", "attempts", "users", "resources", "begins", "ends", "statuses", "outcomes")
    columns = dict(zip(names, map(list, zip(*remembered, strict=True)), strict=False))
    rows = connection.execute(_LOST, {"node": node, **columns}).fetchall() if remembered else []
    connection.execute(_TOLD, (generation, node))
    return frozenset((job, attempt) for job, attempt in rows)


def begun(connection: Connection, node: str, jobs: Sequence[int]) -> list[BegunJob]:
    """Return the jobs among ``jobs`` that wait here although ``node`` has begun them."""
    rows = connection.execute(_BEGUN, (node, list(jobs))).fetchall()
    return [BegunJob(job, tuple(types), text) for job, types, text in rows]


@set_wise
def note_ends(connection: Connection, ends: Sequence[LateEnd]) -> None:
    """Record the ends of lost jobs that ran on."""
    if ends:
        connection.execute(_ENDED, [list(column) for column in zip(*ends, strict=True)])
