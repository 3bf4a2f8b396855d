"""The sizes of the jobs of a page: from the resources that they hold or held, the last plan, or their requests."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from oarpy.store.database import Connection
from oarpy.store.past.reading import is_in_past, with_past

# The nodes of a request are known where each part of it begins with a number of them.
_SIZES = """
    WITH shown AS (
        SELECT job_id, array_id, array_index, submission_id, state, walltime, message,
               'bag' = ANY(types) AS of_bag
        FROM jobs
        WHERE job_id = ANY(%(jobs)s)
    ), held AS (
        SELECT a.job_id, count(DISTINCT r.network_address) AS nodes, count(*) AS cores
        FROM shown j JOIN assigned_resources a USING (job_id) JOIN resources r USING (resource_id)
        WHERE r.type = 'default' AND (upper_inf(a.during) OR a.suspended OR NOT is_live(j.state)) GROUP BY a.job_id
    ), planned AS (
        SELECT g.job_id, count(DISTINCT r.network_address) AS nodes, count(*) AS cores
        FROM shown JOIN gantt_predictions g USING (job_id) CROSS JOIN LATERAL unnest(g.resources) AS part
            JOIN resources r ON r.resource_id >= lower(part) AND r.resource_id < upper(part)
        WHERE r.type = 'default' GROUP BY g.job_id
    ), asked AS (
        SELECT j.job_id, CASE WHEN bool_and(d.level IN ('network_address', 'host') AND d.count > 0)
                              THEN sum(d.count) END AS nodes
        FROM shown j JOIN moldable_descriptions m ON m.submission_id = j.submission_id AND m.position = 0
            JOIN resource_groups g ON g.moldable_id = m.moldable_id
            JOIN resource_descriptions d ON d.group_id = g.group_id AND d.position = 0
        GROUP BY j.job_id
    )
    SELECT j.job_id, coalesce(held.nodes, planned.nodes, asked.nodes)::int,
           coalesce(held.cores, planned.cores, substring(j.message FROM '^R=([0-9]+)')::int)::int,
           extract(epoch FROM coalesce(j.walltime, first.walltime))::float8,
           EXISTS (SELECT FROM jobs o WHERE o.array_id = j.array_id AND o.array_index <> j.array_index), j.of_bag
    FROM shown j LEFT JOIN held USING (job_id) LEFT JOIN planned USING (job_id) LEFT JOIN asked USING (job_id)
        LEFT JOIN gantt_predictions p ON p.job_id = j.job_id
        LEFT JOIN moldable_descriptions first ON first.submission_id = j.submission_id
            AND CASE WHEN p.moldable_id IS NULL THEN first.position = 0 ELSE first.moldable_id = p.moldable_id END
"""


@dataclass(frozen=True, slots=True)
class JobSize:
    """``nodes`` and ``cores``, None where they are not known yet; ``walltime`` in seconds.

    ``in_array``: it shares its array with others. ``of_bag``: it is a task of a bag.
    """

    nodes: int | None
    cores: int | None
    walltime: float | None
    in_array: bool
    of_bag: bool


def sizes(connection: Connection, jobs: Sequence[int]) -> dict[int, JobSize]:
    """Return the sizes of these jobs."""
    with with_past(connection) if is_in_past(connection, jobs, []) else nullcontext():
        rows = connection.execute(_SIZES, {"jobs": list(jobs)}).fetchall()
    return {row[0]: JobSize(*row[1:]) for row in rows}
