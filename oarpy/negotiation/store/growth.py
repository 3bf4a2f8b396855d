"""The rows about jobs that grow and shrink, for the messages to their launchers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from oarpy.store.database import Connection
from oarpy.store.jobs import extensions
from oarpy.store.jobs.extensions import ExtensionRow

# Launchers get no message about a grant that was taken back.
_DONE = """
    SELECT r.job_id, r.resize_id, r.kind, r.extension_id,
           ARRAY(SELECT o.network_address FROM resources o WHERE o.resource_id = ANY (r.resource_ids)
                 GROUP BY o.network_address ORDER BY min(o.resource_id))
    FROM resizes r WHERE r.job_id = ANY(%s) AND r.done_at IS NOT NULL AND (r.kind = 'grant' OR r.extension_id IS NULL)
    ORDER BY r.done_at, r.resize_id
"""
_RECLAIMED = """
    SELECT a.job_id, extract(epoch FROM a.reclaim_at)::float8, r.network_address
    FROM assigned_resources a JOIN resources r USING (resource_id)
    WHERE a.job_id = ANY(%s) AND a.reclaim_at IS NOT NULL AND upper_inf(a.during)
    GROUP BY 1, 2, 3 ORDER BY 1, 2, min(a.resource_id)
"""


@dataclass(frozen=True, slots=True)
class DoneResize:
    """Hosts that came, or that the job lost; ``extension`` is the number of the granted extension."""

    id: int
    kind: str
    extension: int | None
    hosts: Sequence[str]


@dataclass(slots=True)
class JobGrowth:
    """The extensions of a job, its resizes that are done, and hosts that will be taken, by instant (epoch seconds)."""

    extensions: dict[int, ExtensionRow] = field(default_factory=dict)
    resizes: list[DoneResize] = field(default_factory=list)
    reclaimed: dict[float, list[str]] = field(default_factory=dict)


def look_at_once(connection: Connection) -> None:
    """Make all reads of the transaction see one instant; call this before the first read."""
    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


def growth(connection: Connection, jobs: Sequence[int]) -> Mapping[int, JobGrowth]:
    """Return how these jobs have grown and shrunk, without jobs that never did."""
    grown: dict[int, JobGrowth] = {}
    for job, number, kind, extension, hosts in connection.execute(_DONE, [list(jobs)]).fetchall():
        grown.setdefault(job, JobGrowth()).resizes.append(DoneResize(number, kind, extension, hosts))
    for row in extensions.of_jobs(connection, jobs):
        grown.setdefault(row.job, JobGrowth()).extensions[row.id] = row
    for job, at, host in connection.execute(_RECLAIMED, [list(jobs)]).fetchall():
        grown.setdefault(job, JobGrowth()).reclaimed.setdefault(at, []).append(host)
    return grown
