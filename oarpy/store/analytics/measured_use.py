"""The use of jobs on their other nodes, as these report it after cleaning, and the memory that jobs lacked."""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.store.database import Connection
from oarpy.store.refusals import set_wise

# On its other nodes a job may have met its limit without ending of it.
_NOTE_MEMORY = """
    WITH told AS (
        SELECT t.* FROM unnest(%s::bigint[], %s::text[], %s::text[]) AS t(job_id, node, message)
            JOIN jobs USING (job_id)
    ), noted AS (
        UPDATE jobs j SET message = concat_ws('; ', nullif(j.message, ''), t.message) FROM told t
        WHERE j.job_id = t.job_id AND is_live(j.state)
    )
    INSERT INTO event_logs (type, job_id, hosts, description)
    SELECT 'OUT_OF_MEMORY', job_id, ARRAY[node], message FROM told
"""

# The other nodes report a job's use when the job has left them, or is over. Memory is that of the node with the most.
_ADD_USAGE = """
    UPDATE jobs j
    SET cpu_seconds = least(coalesce(j.cpu_seconds, 0) + u.cpu, 2 ^ 53), memory_peak = greatest(j.memory_peak, u.memory)
    FROM (SELECT job_id, attempt, coalesce(sum(cpu), 0) AS cpu, max(memory) AS memory
          FROM unnest(%s::bigint[], %s::int[], %s::text[], %s::float8[], %s::bigint[])
              AS t(job_id, attempt, node, cpu, memory)
          WHERE EXISTS (SELECT FROM assigned_resources a JOIN resources r USING (resource_id)
                        WHERE a.job_id = t.job_id AND r.network_address = t.node)
          GROUP BY job_id, attempt) u
    WHERE j.job_id = u.job_id AND j.attempt = u.attempt
      AND (j.state = 'Finishing' AND j.final_state <> 'Waiting' OR j.state = 'Running' AND EXISTS (
          SELECT FROM resizes s WHERE s.job_id = j.job_id AND s.done_at IS NULL AND s.kind <> 'grant'))
"""


@set_wise
def note_memory(connection: Connection, kills: Sequence[tuple[int, str, str]]) -> None:
    """Log for each (job, node, text) that the job ran out of memory there, as an event and in its message."""
    if kills:
        connection.execute(_NOTE_MEMORY, [list(column) for column in zip(*kills, strict=True)])


@set_wise
def add_usage(connection: Connection, used: Sequence[tuple[int, int, str, float | None, int | None]]) -> None:
    """Add (job, attempt, node, CPU seconds, bytes of memory) of other nodes to the figures of the first node.

    A node that the job does not hold is left out.
    """
    if used:
        connection.execute(_ADD_USAGE, [list(column) for column in zip(*used, strict=True)])
