"""The accounting computed again, another way than the module does: for ``oarpy db check --accounting``.

The module cuts spans of seconds at window borders. Here each window is intersected, as a range, with when a job ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from oarpy.store.database import Connection
from oarpy.store.jobs.kill_requests import GAVE_WAY
from oarpy.store.past.reading import with_past

_LENGTHS = """
    SELECT DISTINCT extract(epoch FROM window_stop - window_start)::bigint FROM accounting ORDER BY 1
"""

# All in one statement, which sees the sums and the jobs of one instant.
_DIFFERENCES = """
    WITH counted AS (
        SELECT job_id, user_name, project, queue_name, moldable_id,
               tstzmultirange(tstzrange(started_at, ended_at)) AS ran,
               tstzmultirange(tstzrange(started_at,
                   started_at + extract(epoch FROM walltime)::float8 * interval '1 second')) AS asked
        FROM jobs WHERE accounted AND started_at < ended_at
    ), parts AS (
        SELECT moldable_id, level, consumable || '_' AS prefix, amount::numeric AS part
        FROM consumption_descriptions JOIN consumables ON name = consumable
        UNION ALL
        SELECT moldable_id, 'gpu', 'GPU_', CASE WHEN count(level) = 0 THEN 1
            ELSE coalesce(max(least(amount, 100)) FILTER (WHERE name = 'gpu_share'), 0) / 100.0 END
        FROM (SELECT moldable_id FROM resource_groups WHERE group_id IN (
                  SELECT group_id FROM resource_descriptions WHERE level = 'gpu')
              UNION
              SELECT moldable_id FROM consumption_descriptions WHERE consumable = 'gpu_share') asking
            LEFT JOIN (consumption_descriptions JOIN consumables ON name = consumable AND level = 'gpu')
                USING (moldable_id)
        GROUP BY 1
    ), held AS (
        SELECT c.*, '' AS prefix, 1::numeric AS part, a.during, a.extension_id IS NULL AS at_start
        FROM counted c JOIN assigned_resources a USING (job_id) JOIN resources r USING (resource_id)
        WHERE r.type = 'default'
        UNION ALL
        SELECT c.*, p.prefix, p.part, block.during, block.at_start
        FROM counted c JOIN parts p USING (moldable_id) CROSS JOIN LATERAL (
            SELECT range_agg(a.during) AS during, bool_or(a.extension_id IS NULL) AS at_start
            FROM assigned_resources a JOIN resources r USING (resource_id)
            WHERE a.job_id = c.job_id AND r.type = 'default' AND to_jsonb(r) ->> p.level IS NOT NULL
            GROUP BY to_jsonb(r) ->> p.level) block
    ), stretches AS (
        SELECT h.user_name, h.project, h.queue_name, h.prefix || kind.name AS name, kind.during,
               sum(h.part) AS resources
        FROM held h,
             LATERAL (VALUES ('USED', h.ran * CASE WHEN h.at_start
                                  THEN h.during + tstzmultirange(tstzrange(NULL, lower(h.during))) ELSE h.during END),
                             ('ASKED', CASE WHEN h.at_start THEN h.asked ELSE h.asked * h.during END))
                 AS kind(name, during)
        WHERE NOT isempty(kind.during)
        GROUP BY h.job_id, h.user_name, h.project, h.queue_name, h.prefix || kind.name, kind.during
    ), windows AS (
        SELECT s.*, tstzrange(to_timestamp(n * %(window)s), to_timestamp((n + 1) * %(window)s)) AS span
        FROM stretches s, generate_series(floor(extract(epoch FROM lower(s.during)) / %(window)s)::bigint,
                                          floor(extract(epoch FROM upper(s.during)) / %(window)s)::bigint) AS n
    ), recounted AS (
        SELECT lower(span) AS window_start, user_name, project, queue_name, name AS consumption_type,
               sum(resources * extract(epoch FROM upper(part) - lower(part))) AS consumption
        FROM windows, unnest(during * tstzmultirange(span)) AS part
        GROUP BY 1, 2, 3, 4, 5
    )
    SELECT window_start, user_name, project, queue_name, consumption_type,
           coalesce(a.consumption, 0), coalesce(r.consumption, 0)
    FROM accounting a FULL JOIN recounted r USING (window_start, user_name, project, queue_name, consumption_type)
    WHERE coalesce(a.consumption, 0) <> coalesce(r.consumption, 0)
      AND window_start >= coalesce(greatest(
          (SELECT accounting_since FROM site),
          (SELECT max(counted_until) FROM past_months WHERE dropped_at IS NOT NULL),
          (SELECT gpu_hours_since FROM site WHERE consumption_type LIKE '%%\\_%%')), '-infinity')
    ORDER BY 1, 2, 3, 4, 5
"""

# The module adds each job to the sums of a day as it counts it; here each job is looked at by itself. Sums of seconds
# are doubles, which depend on the order in which they were added.
_DAYS = """
    WITH counted AS (
        SELECT (j.ended_at AT TIME ZONE 'UTC')::date AS day, j.user_name, j.project, j.queue_name,
               (j.state = 'Error' OR j.exit_status <> 0) IS TRUE AS failed,
               greatest(extract(epoch FROM j.started_at), extract(epoch FROM j.submitted_at))
                   - extract(epoch FROM j.submitted_at) AS wait, j.started_at,
               extract(epoch FROM j.ended_at) - extract(epoch FROM j.started_at) AS ran,
               EXISTS (SELECT FROM kill_requests k WHERE k.job_id = j.job_id AND k.reason = %(gave_way)s)
                   AS gave_way,
               (SELECT count(*) FROM assigned_resources a JOIN resources r USING (resource_id)
                WHERE a.job_id = j.job_id AND r.type = 'default') AS resources
        FROM jobs j WHERE j.accounted
    ), recounted AS (
        SELECT day, user_name, project, queue_name, count(*) AS jobs, count(*) FILTER (WHERE failed) AS failed,
               count(started_at) AS started,
               coalesce(sum(wait) FILTER (WHERE started_at IS NOT NULL), 0) AS wait_seconds,
               coalesce(max(wait) FILTER (WHERE started_at IS NOT NULL), 0) AS longest_wait,
               coalesce(sum(CASE WHEN wait + ran < greatest(ran, 10) THEN 1
                                 ELSE (wait + ran) / greatest(ran, 10) END)
                        FILTER (WHERE started_at IS NOT NULL), 0) AS slowdowns,
               count(*) FILTER (WHERE gave_way) AS gave_way,
               coalesce(sum(greatest(ran, 0) * resources) FILTER (WHERE gave_way), 0) AS wasted_seconds
        FROM counted GROUP BY 1, 2, 3, 4
    )
    SELECT day, user_name, project, queue_name, name, coalesce(old, 0), coalesce(new, 0)
    FROM job_days d FULL JOIN recounted r USING (day, user_name, project, queue_name),
         LATERAL (VALUES ('jobs', d.jobs::float8, r.jobs::float8), ('failed', d.failed, r.failed),
                         ('started', d.started, r.started), ('gave_way', d.gave_way, r.gave_way),
                         ('wait_seconds', d.wait_seconds, r.wait_seconds),
                         ('longest_wait', d.longest_wait, r.longest_wait), ('slowdowns', d.slowdowns, r.slowdowns),
                         ('wasted_seconds', d.wasted_seconds, r.wasted_seconds)) AS sums(name, old, new)
    WHERE abs(coalesce(old, 0) - coalesce(new, 0)) > 1e-6 * greatest(1, abs(old), abs(new))
      AND day > coalesce((SELECT max((counted_until AT TIME ZONE 'UTC')::date) FROM past_months
                          WHERE dropped_at IS NOT NULL), '-infinity')
    ORDER BY 1, 2, 3, 4, 5
"""


@dataclass(frozen=True, slots=True)
class WrongDay:
    """A sum of the jobs of a day that is ``counted``, where the jobs make ``recounted``."""

    day: date
    user: str
    project: str
    queue: str
    column: str
    counted: float
    recounted: float


@dataclass(frozen=True, slots=True)
class WrongSum:
    """A row of the accounting that has ``counted`` resource-seconds, where the jobs make ``recounted``."""

    window: datetime
    user: str
    project: str
    queue: str
    kind: str
    counted: Decimal
    recounted: Decimal


def window_lengths(connection: Connection) -> Sequence[int]:
    """Return the lengths of the windows that have sums, in seconds, ascending."""
    return [row[0] for row in connection.execute(_LENGTHS)]


def differences(connection: Connection, window: int) -> list[WrongSum]:
    """Return the rows of windows of ``window`` seconds whose sum is not the sum of their jobs, past or not."""
    with with_past(connection):
        return [WrongSum(*row) for row in connection.execute(_DIFFERENCES, {"window": window})]


def day_differences(connection: Connection) -> list[WrongDay]:
    """Return the sums of ``job_days`` that differ from the sums of the jobs, past jobs included."""
    with with_past(connection):
        return [WrongDay(*row) for row in connection.execute(_DAYS, {"gave_way": GAVE_WAY})]
