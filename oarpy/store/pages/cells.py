"""The state of all cells at this moment, by node, and the jobs on them."""

from __future__ import annotations

from dataclasses import dataclass

from oarpy.store.database import Connection

# One letter for each cell: b(usy), h(eld while it is drained), f(ree), d(rained), z (sleeping), a(bsent), s(uspected),
# x (dead). A held resource that is not Alive shows its state.
_CELLS = """
    WITH held AS (
        SELECT resource_id, min(job_id) AS job FROM assigned_resources
        WHERE upper_inf(during) GROUP BY resource_id
    ), cells AS (
        SELECT r.network_address, r.resource_id, coalesce(h.job, 0) AS job,
               CASE r.state
                   WHEN 'Alive' THEN (ARRAY['f', 'd', 'b', 'h'])[1 + r.drain::int + 2 * (h.job IS NOT NULL)::int]
                   WHEN 'Absent' THEN CASE WHEN r.available_upto > now() THEN 'z' ELSE 'a' END
                   WHEN 'Suspected' THEN 's' ELSE 'x' END AS letter
        FROM resources r LEFT JOIN held h USING (resource_id) WHERE r.type = 'default'
    )
    SELECT c.network_address, string_agg(c.letter, '' ORDER BY c.resource_id),
           array_agg(c.job ORDER BY c.resource_id), n.away_reason, n.channel
    FROM cells c JOIN nodes n USING (network_address)
    GROUP BY c.network_address, n.away_reason, n.channel
    ORDER BY min(c.resource_id)
"""

_JOBS = """
    SELECT job_id, user_name, queue_name, state, extract(epoch FROM started_at)::float8,
           extract(epoch FROM expected_end(jobs))::float8, 'besteffort' = ANY(types)
    FROM jobs WHERE is_live(state) AND state IN (SELECT state FROM job_states WHERE holding) ORDER BY job_id
"""


@dataclass(frozen=True, slots=True)
class NodeCells:
    """The cells of a node in order of resource: a letter each, and the job on each, 0 for none."""

    name: str
    letters: str
    jobs: tuple[int, ...]
    away_reason: str | None
    channel: str


@dataclass(frozen=True, slots=True)
class CellJob:
    """A job that holds cells; ``started`` and ``ends`` (expected) are epoch seconds."""

    job_id: int
    user: str
    queue: str
    state: str
    started: float | None
    ends: float | None
    besteffort: bool


def nodes(connection: Connection) -> tuple[NodeCells, ...]:
    """Return all nodes that have cells, in the order in which they were described."""
    rows = connection.execute(_CELLS, binary=True).fetchall()
    return tuple(NodeCells(name, letters, tuple(jobs), why, channel) for name, letters, jobs, why, channel in rows)


def holding_jobs(connection: Connection) -> tuple[CellJob, ...]:
    """Return the jobs that hold cells, in order of id."""
    return tuple(CellJob(*row) for row in connection.execute(_JOBS, binary=True).fetchall())
