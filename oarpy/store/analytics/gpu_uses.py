"""How busy the GPUs of running jobs are, as nodes tell: added up for each job, with since when they are idle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oarpy.store.database import Connection
from oarpy.store.events import log_request
from oarpy.store.jobs import kill_requests
from oarpy.store.refusals import set_wise

IDLE = "GPU_IDLE"
"""Type of the event of a job that leaves its GPUs idle."""


@dataclass(frozen=True, slots=True)
class GpuHolder:
    """A job that runs, one of its nodes, and the numbers of its GPUs there."""

    job: int
    node: str
    numbers: frozenset[int]


@dataclass(frozen=True, slots=True)
class LookedAt:
    """A look at the GPUs of a job: how many it has, and how many of them have a ``measured`` load.

    ``busy`` is the sum of their loads, each from 0 to 1. ``memory`` has the bytes in use on all of them, ``most`` the
    bytes on the fullest GPU, which has ``total``; None where no driver reported them.
    """

    job: int
    gpus: int
    measured: int
    busy: float
    memory: int | None
    most: int | None
    total: int | None


# Only on nodes that reported GPUs: elsewhere no resource is looked at.
_HOLDERS = """
    SELECT j.job_id, n.network_address, array_agg(DISTINCT (to_jsonb(r) ->> 'gpudevice')::numeric)
    FROM nodes n JOIN resources r USING (network_address)
        JOIN assigned_resources a ON a.resource_id = r.resource_id AND upper_inf(a.during) JOIN jobs j USING (job_id)
    WHERE n.gpus > 0 AND j.state = 'Running' AND jsonb_typeof(to_jsonb(r) -> 'gpudevice') = 'number'
      AND (NOT EXISTS (SELECT FROM exclusive_levels WHERE property = 'gpu')
           OR EXISTS (SELECT FROM held_blocks b WHERE b.job_id = j.job_id AND b.property = 'gpu'))
    GROUP BY 1, 2 ORDER BY 1, 2
"""

# A look stands for the time since the last one, or since the start. It stands only for a part of a longer time without
# looks. A job is idle while each look at all of its GPUs finds them idle.
_RECORD = """
    INSERT INTO gpu_uses AS u (job_id, gpus, busy, memory, memory_peak, memory_total, seconds, busy_seconds, looked_at,
                               idle_since, warned_at)
    SELECT t.job_id, t.gpus, t.busy, t.memory, t.most, t.total, t.measured * since.seconds, t.busy * since.seconds,
           now(), CASE WHEN t.measured = t.gpus AND t.busy < 0.01 THEN coalesce(idle.since, now()) END,
           CASE WHEN t.measured = t.gpus AND t.busy < 0.01 AND idle.since IS NOT NULL THEN before.warned_at END
    FROM unnest(%s::bigint[], %s::integer[], %s::integer[], %s::float8[], %s::bigint[], %s::bigint[], %s::bigint[])
            AS t(job_id, gpus, measured, busy, memory, most, total)
        JOIN jobs j USING (job_id) LEFT JOIN gpu_uses before USING (job_id)
        CROSS JOIN LATERAL (
            SELECT extract(epoch FROM now() - coalesce(before.looked_at, j.started_at)) AS seconds) past
        CROSS JOIN LATERAL (SELECT greatest(least(past.seconds, %s), 0)::float8 AS seconds) since
        CROSS JOIN LATERAL (SELECT CASE WHEN past.seconds <= %s THEN before.idle_since END AS since) idle
    WHERE j.state = 'Running'
    ON CONFLICT (job_id) DO UPDATE
        SET gpus = excluded.gpus, busy = excluded.busy, memory = excluded.memory,
            memory_peak = greatest(u.memory_peak, excluded.memory_peak),
            memory_total = greatest(u.memory_total, excluded.memory_total), seconds = u.seconds + excluded.seconds,
            busy_seconds = u.busy_seconds + excluded.busy_seconds, looked_at = excluded.looked_at,
            idle_since = excluded.idle_since, warned_at = excluded.warned_at
"""

_WARN = """
    WITH warned AS (
        UPDATE gpu_uses u SET warned_at = now() FROM jobs j
        WHERE j.job_id = u.job_id AND j.job_id = ANY (%(jobs)s) AND j.state = 'Running' AND u.warned_at IS NULL
          AND u.idle_since <= now() - %(after)s * interval '1 second'
        RETURNING u.job_id
    )
    INSERT INTO event_logs (type, job_id, description) SELECT %(type)s, job_id, %(text)s FROM warned
"""
_TOO_IDLE = """
    SELECT u.job_id FROM jobs j JOIN gpu_uses u USING (job_id)
    WHERE j.job_id = ANY (%s) AND j.state = 'Running' AND u.idle_since <= now() - %s * interval '1 second' ORDER BY 1
"""


_OF_JOB = "SELECT gpus, busy, memory, seconds, busy_seconds, memory_peak, memory_total FROM gpu_uses WHERE job_id = %s"


class GpuUseRow(NamedTuple):
    """The use of a job's GPUs: of ``gpus``, ``busy`` at the last look, and the busy seconds among all seconds."""

    gpus: int
    busy: float
    memory: int | None
    seconds: float
    busy_seconds: float
    memory_peak: int | None
    memory_total: int | None


def of_job(connection: Connection, job: int) -> GpuUseRow | None:
    """Return the measured use of a job's GPUs, None without a look."""
    row = connection.execute(_OF_JOB, [job]).fetchone()
    return None if row is None else GpuUseRow(*row)


def holders(connection: Connection) -> list[GpuHolder]:
    """Return the GPUs that running jobs have, as far as these are numbered on their nodes."""
    return [GpuHolder(job, node, frozenset(map(int, numbers))) for job, node, numbers in connection.execute(_HOLDERS)]


@set_wise
def record(connection: Connection, looks: Sequence[LookedAt], reach: float) -> None:
    """Add looks; each stands for ``reach`` seconds at most. Jobs that run no more are left as they are."""
    if looks:
        names = LookedAt.__dataclass_fields__
        columns: list[object] = [[getattr(look, name) for look in looks] for name in names]
        connection.execute(_RECORD, [*columns, reach, reach])


def warn(connection: Connection, jobs: Sequence[int], after: int, text: str) -> None:
    """Tell the users of those ``jobs`` whose GPUs are idle for ``after`` seconds, once until these are busy again.

    The jobs have just been looked at: the stored use of other jobs may be old.
    """
    connection.execute(_WARN, {"jobs": list(jobs), "after": after, "text": text, "type": IDLE})


def end_idle(connection: Connection, jobs: Sequence[int], after: int, reason: str) -> None:
    """Ask for the end of those ``jobs``, which have just been looked at, whose GPUs are idle for ``after`` seconds."""
    kills = [(job, reason) for (job,) in connection.execute(_TOO_IDLE, [list(jobs), after])]
    to_kill = kill_requests.ask_once(connection, kills, "launcher")
    log_request(connection, to_kill, "launcher", "FRAG_JOB_REQUEST")
