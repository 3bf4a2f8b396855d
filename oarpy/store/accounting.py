"""Consumption by window, user, project and queue: counting ended jobs once, and reading the sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.types.json import Jsonb

from oarpy.model.billing import Kind
from oarpy.store.database import Connection
from oarpy.store.histories import rewrite
from oarpy.store.jobs.kill_requests import GAVE_WAY
from oarpy.store.refusals import refusals_of, set_wise

# The rows that the view of karma sums up too.
_ACCOUNTED = "SELECT user_name, project, used_seconds, asked_seconds FROM oar_report.charges WHERE source = 'accounted'"
_HELD = "SELECT user_name, project, used_seconds, asked_seconds FROM oar_report.charges WHERE source = 'held'"

_KARMA = """
    UPDATE scheduling_passes p
    SET karma_window = r.karma_window, karma_project = r.karma_project, karma_user = r.karma_user,
        karma_asked = r.karma_asked, other_users_target = r.other_users_target,
        other_projects_target = r.other_projects_target, user_targets = r.user_targets,
        project_targets = r.project_targets
    FROM (SELECT least(%s::float8, 1000000000) * interval '1 second', %s::float8, %s::float8, %s::float8, %s::float8,
                 %s::float8, %s::jsonb, %s::jsonb)
        AS r(karma_window, karma_project, karma_user, karma_asked, other_users_target, other_projects_target,
             user_targets, project_targets)
    WHERE (p.karma_window, p.karma_project, p.karma_user, p.karma_asked, p.other_users_target,
           p.other_projects_target, p.user_targets, p.project_targets) IS DISTINCT FROM
          (r.karma_window, r.karma_project, r.karma_user, r.karma_asked, r.other_users_target,
           r.other_projects_target, r.user_targets, r.project_targets)
"""
# Amounts of a consumable in bytes are billed by GiB.
_WEIGHTS = """
    UPDATE scheduling_passes SET billing_weights = known.weights FROM (
        SELECT jsonb_object_agg(key, CASE WHEN c.unit = 'bytes' THEN value::numeric / 1073741824 ELSE value::numeric
                                     END) AS weights
        FROM jsonb_each(%s) LEFT JOIN consumables c ON c.name = key) AS known
    WHERE billing_weights <> coalesce(known.weights, '{}')
"""
_VERSION = "SELECT usage_version FROM site"


@dataclass(frozen=True, slots=True)
class UsageRow:
    """Resource-seconds of a user in a project."""

    user: str
    project: str
    used: float
    asked: float


@dataclass(frozen=True, slots=True)
class KarmaRow:
    """The inputs of karma: a window in seconds, coefficients, and targets from 0 to 1."""

    window: float
    project: float
    user: float
    asked: float
    other_users: float
    other_projects: float
    user_targets: Mapping[str, float]
    project_targets: Mapping[str, float]


def usage_version(connection: Connection) -> int:
    """Return the counter that changes when anybody but the module that counts changes the sums."""
    row = connection.execute(_VERSION).fetchone()
    assert row is not None
    return int(row[0])


def accounted(connection: Connection) -> list[UsageRow]:
    """Return the sums of the windows that began within the recorded one, best-effort left out."""
    return [UsageRow(*row) for row in connection.execute(_ACCOUNTED)]


def held(connection: Connection) -> list[UsageRow]:
    """Return the request and the use so far of jobs that hold resources, without best-effort jobs."""
    return [UsageRow(*row) for row in connection.execute(_HELD)]


def record_karma(connection: Connection, row: KarmaRow) -> None:
    """Record the inputs of karma, for passes and for the view, unless they are there."""
    values = row.window, row.project, row.user, row.asked, row.other_users, row.other_projects
    connection.execute(_KARMA, [*values, Jsonb(dict(row.user_targets)), Jsonb(dict(row.project_targets))])


def record_weights(connection: Connection, weights: Mapping[Kind, float]) -> None:
    """Record what an hour of each kind of resource is billed, for views, unless it is there."""
    connection.execute(_WEIGHTS, [Jsonb(dict(weights))])


# One statement: the sums and the marks of the jobs they come from are written together or not at all. A job that
# another session is counting is left to it. Keys are written in order, so two sessions cannot wait for each other.
# Resources of a job that were held at the same times, as all of a job mostly are, are counted together. Times in which
# a suspended job had given its resources back are not USED. Resources of an extension count while held. A job that
# asked for GPUs has the GPUs that its resources belong to, each for as long as it has any resource of it. A job that
# shares GPUs by an amount has its part of each: hundredths, if the amount is gpu_share. So it is with consumables: a
# job has its amount of each block for as long as it has any resource of it.
_ACCOUNT = """
    WITH picked AS MATERIALIZED (
        SELECT job_id, user_name, project, queue_name, started_at, ended_at, walltime, submitted_at,
               (ended_at AT TIME ZONE 'UTC')::date AS day, state = 'Error' OR coalesce(exit_status, 0) <> 0 AS failed,
               submission_id, moldable_id, cpu_seconds, memory_peak, suspended_time
        FROM jobs WHERE ended_at IS NOT NULL AND NOT accounted
          AND (%(jobs)s::bigint[] IS NULL OR job_id = ANY(%(jobs)s))
        ORDER BY job_id LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
    ), sized AS (
        SELECT p.job_id, p.user_name, p.project, p.queue_name, p.started_at, p.ended_at, p.walltime,
               extract(epoch FROM p.started_at) AS begin, a.during, a.extension_id IS NOT NULL AS came_later,
               count(*) AS resources
        FROM picked p JOIN assigned_resources a USING (job_id) JOIN resources r USING (resource_id)
        WHERE p.started_at IS NOT NULL AND p.ended_at > p.started_at AND r.type = 'default'
        GROUP BY p.job_id, p.user_name, p.project, p.queue_name, p.started_at, p.ended_at, p.walltime, a.during,
                 came_later
    ), amounts AS MATERIALIZED (
        SELECT p.*, u.level, c.amount::numeric, u.name || '_' AS kind
        FROM picked p JOIN consumption_descriptions c USING (moldable_id) JOIN consumables u ON u.name = c.consumable
        WHERE p.started_at IS NOT NULL AND p.ended_at > p.started_at
    ), divided AS MATERIALIZED (
        SELECT * FROM amounts
        UNION ALL
        SELECT p.*, 'gpu', 1, 'GPU_' FROM picked p
        WHERE p.started_at IS NOT NULL AND p.ended_at > p.started_at AND EXISTS (
            SELECT FROM resource_groups g JOIN resource_descriptions d USING (group_id)
            WHERE g.moldable_id = p.moldable_id AND d.level = 'gpu')
          AND NOT EXISTS (SELECT FROM amounts a WHERE a.job_id = p.job_id AND a.level = 'gpu')
        UNION ALL
        SELECT p.*, 'gpu', least(a.amount, 100) / 100, 'GPU_'
        FROM picked p JOIN amounts a USING (job_id) WHERE a.kind = 'gpu_share_' AND a.level = 'gpu'
    ), held AS (
        SELECT user_name, project, queue_name, started_at, ended_at, walltime, begin, during, came_later,
               resources::numeric AS resources, '' AS kind
        FROM sized
        UNION ALL
        SELECT p.user_name, p.project, p.queue_name, p.started_at, p.ended_at, p.walltime,
               extract(epoch FROM p.started_at), range_agg(a.during), bool_and(a.extension_id IS NOT NULL), p.amount,
               p.kind
        FROM divided p JOIN assigned_resources a USING (job_id) JOIN resources r USING (resource_id)
        WHERE r.type = 'default' AND to_jsonb(r) ->> p.level IS NOT NULL
        GROUP BY p.job_id, p.user_name, p.project, p.queue_name, p.started_at, p.ended_at, p.walltime, p.amount,
                 p.kind, to_jsonb(r) ->> p.level
    ), spans AS (
        SELECT user_name, project, queue_name, resources, kind || 'USED' AS consumption_type,
               extract(epoch FROM lower(stretch)) AS begin, extract(epoch FROM upper(stretch)) AS finish
        FROM held, unnest(tstzmultirange(tstzrange(started_at, ended_at)) - (tstzmultirange(
                tstzrange(CASE WHEN NOT came_later THEN lower(during) END, NULL)) - during)) AS stretch
        UNION ALL
        SELECT user_name, project, queue_name, resources, kind || 'ASKED', begin, begin + extract(epoch FROM walltime)
        FROM held WHERE NOT came_later
        UNION ALL
        SELECT user_name, project, queue_name, resources, kind || 'ASKED', extract(epoch FROM lower(stretch)),
               extract(epoch FROM upper(stretch))
        FROM held, unnest(tstzmultirange(tstzrange(started_at, started_at
                           + extract(epoch FROM walltime)::float8 * interval '1 second')) * during) AS stretch
        WHERE came_later
    ), shares AS (
        SELECT number, user_name, project, queue_name, consumption_type,
               resources * (least(finish, (number + 1) * %(window)s) - greatest(begin, number * %(window)s))
                   AS consumption
        FROM spans, generate_series(floor(begin / %(window)s)::bigint, ceil(finish / %(window)s)::bigint - 1) AS number
    ), summed AS (
        INSERT INTO accounting AS a
            (window_start, window_stop, user_name, project, queue_name, consumption_type, consumption)
        SELECT to_timestamp(number * %(window)s), to_timestamp((number + 1) * %(window)s), user_name, project,
               queue_name, consumption_type, sum(consumption)
        FROM shares
        GROUP BY number, user_name, project, queue_name, consumption_type
        ORDER BY number, user_name, project, queue_name, consumption_type
        ON CONFLICT (window_start, window_stop, user_name, project, queue_name, consumption_type)
            DO UPDATE SET consumption = a.consumption + excluded.consumption
    ), wasted AS MATERIALIZED (
        SELECT job_id, coalesce(sum(s.resources * extract(epoch FROM s.ended_at - s.started_at)), 0) AS seconds
        FROM picked p JOIN kill_requests k USING (job_id) LEFT JOIN sized s USING (job_id)
        WHERE k.reason = %(gave_way)s GROUP BY job_id
    ), tallied AS (
        INSERT INTO job_days AS d (day, user_name, project, queue_name, jobs, failed, started, wait_seconds,
                                   longest_wait, slowdowns, gave_way, wasted_seconds)
        SELECT day, user_name, project, queue_name, count(*), count(*) FILTER (WHERE failed), count(waited),
               coalesce(sum(waited), 0), coalesce(max(waited), 0),
               coalesce(sum(greatest((waited + ran) / greatest(ran, 10), 1)) FILTER (WHERE waited IS NOT NULL), 0),
               count(w.seconds), coalesce(sum(w.seconds), 0)
        FROM (SELECT *, CASE WHEN started_at IS NOT NULL THEN greatest(extract(epoch FROM started_at - submitted_at), 0)
                        END AS waited, extract(epoch FROM ended_at - started_at) AS ran FROM picked) p
            LEFT JOIN wasted w USING (job_id)
        GROUP BY day, user_name, project, queue_name
        ORDER BY day, user_name, project, queue_name
        ON CONFLICT (day, user_name, project, queue_name) DO UPDATE
            SET jobs = d.jobs + excluded.jobs, failed = d.failed + excluded.failed,
                started = d.started + excluded.started, wait_seconds = d.wait_seconds + excluded.wait_seconds,
                longest_wait = greatest(d.longest_wait, excluded.longest_wait),
                slowdowns = d.slowdowns + excluded.slowdowns, gave_way = d.gave_way + excluded.gave_way,
                wasted_seconds = d.wasted_seconds + excluded.wasted_seconds
    ), used AS (
        INSERT INTO job_kinds AS k (kind, day, jobs, run_seconds, busy_cores, memory_peak)
        SELECT kind, day, count(*) FILTER (WHERE NOT failed), max(ran), max(cpu_seconds / nullif(ran, 0)),
               max(memory_peak)
        FROM (SELECT *, greatest(extract(epoch FROM ended_at - started_at - suspended_time), 0) AS ran FROM picked) p
             JOIN submissions s USING (submission_id)
        WHERE s.kind IS NOT NULL AND started_at IS NOT NULL
        GROUP BY kind, day ORDER BY kind, day
        ON CONFLICT (kind, day) DO UPDATE
            SET jobs = k.jobs + excluded.jobs, run_seconds = greatest(k.run_seconds, excluded.run_seconds),
                busy_cores = greatest(k.busy_cores, excluded.busy_cores),
                memory_peak = greatest(k.memory_peak, excluded.memory_peak)
    ), marked AS (
        UPDATE jobs j SET accounted = true FROM picked p WHERE j.job_id = p.job_id RETURNING j.job_id
    )
    SELECT count(*) FROM marked
"""

# Triggers let no other session change the sums.
_COUNTING = "SELECT set_config('oarpy.counting', 'on', true)"
_UNACCOUNTED = "SELECT job_id FROM jobs WHERE ended_at IS NOT NULL AND NOT accounted ORDER BY job_id LIMIT %s"

# Kept exactly, rounded once, where it is shown.
_CONSUMPTION = """
    SELECT user_name, project,
           coalesce(sum(consumption) FILTER (WHERE consumption_type = 'ASKED'), 0)::bigint,
           coalesce(sum(consumption) FILTER (WHERE consumption_type = 'USED'), 0)::bigint,
           coalesce(sum(consumption) FILTER (WHERE consumption_type = 'GPU_ASKED'), 0)::bigint,
           coalesce(sum(consumption) FILTER (WHERE consumption_type = 'GPU_USED'), 0)::bigint,
           extract(epoch FROM min(first))::bigint, extract(epoch FROM max(last))::bigint,
           coalesce(jsonb_object_agg(left(consumption_type, -5), round(consumption))
               FILTER (WHERE consumption_type ~ '^[a-z_].*_USED$'), '{}')
    FROM (
        SELECT user_name, project, consumption_type, sum(consumption) AS consumption, min(window_start) AS first,
               max(window_stop) AS last
        FROM accounting
        WHERE window_start < %(end)s AND window_stop > %(begin)s AND (%(user)s::text IS NULL OR user_name = %(user)s)
        GROUP BY user_name, project, consumption_type) AS sums
    GROUP BY user_name, project
    ORDER BY user_name, project
"""

_FORGET_SUMS = """
    WITH site AS (
        UPDATE site SET accounting_since = NULL, gpu_hours_since = NULL
        WHERE accounting_since IS NOT NULL OR gpu_hours_since IS NOT NULL
    )
    DELETE FROM accounting
"""
_FORGET_DAYS = "DELETE FROM job_days"
_FORGET_KINDS = "DELETE FROM job_kinds"
_FORGET_MARKS = "UPDATE jobs SET accounted = false WHERE accounted"
_DELETE_BEFORE = """
    WITH deleted AS (
        DELETE FROM accounting WHERE window_stop <= %s RETURNING window_stop
    ), noted AS (
        UPDATE site SET accounting_since = last FROM (SELECT max(window_stop) AS last FROM deleted) AS d
        WHERE last > coalesce(accounting_since, '-infinity')
    )
    SELECT count(*) FROM deleted
"""


@dataclass(frozen=True, slots=True)
class ConsumptionRow:
    """Resource-seconds asked and used by a user in a project, within the windows from ``first`` to ``last`` (epoch).

    Beside them GPU-seconds, and the ``amounts`` of consumables that were used, times seconds.
    """

    user: str
    project: str
    asked: int
    used: int
    gpu_asked: int
    gpu_used: int
    first: int
    last: int
    amounts: Mapping[str, int]


def account(connection: Connection, window: int, limit: int) -> int:
    """Add up to ``limit`` ended jobs to the sums of aligned windows of ``window`` seconds; return how many.

    Called within a transaction.
    """
    if not refusals_of(connection).any:
        return sum(_account(connection, None, window, limit))
    jobs = [row[0] for row in connection.execute(_UNACCOUNTED, [limit])]
    return sum(_account_some(connection, jobs, window, limit))


@set_wise
def _account_some(connection: Connection, jobs: Sequence[int], window: int, limit: int) -> list[int]:
    """Add these jobs."""
    return _account(connection, list(jobs), window, limit)


def _account(connection: Connection, jobs: list[int] | None, window: int, limit: int) -> list[int]:
    """Add ``jobs`` (None: any); return how many were added, as a list of one number."""
    connection.execute(_COUNTING)
    row = connection.execute(
        _ACCOUNT, {"window": window, "limit": limit, "jobs": jobs, "gave_way": GAVE_WAY}
    ).fetchone()
    assert row is not None
    return [int(row[0])]


def consumption(
    connection: Connection, begin: datetime, end: datetime, user: str | None = None
) -> tuple[ConsumptionRow, ...]:
    """Return the sums of the windows that meet ``begin`` to ``end``, of one user or of all."""
    rows = connection.execute(_CONSUMPTION, {"begin": begin, "end": end, "user": user}).fetchall()
    return tuple(ConsumptionRow(*row) for row in rows)


def forget(connection: Connection) -> None:
    """Drop all sums and mark every ended job as not counted yet."""
    rewrite(connection)
    connection.execute(_FORGET_SUMS)
    connection.execute(_FORGET_DAYS)
    connection.execute(_FORGET_KINDS)
    forget_marks(connection)


def forget_marks(connection: Connection) -> None:
    """Mark every ended job as not counted yet."""
    connection.execute(_FORGET_MARKS)


def delete_before(connection: Connection, moment: datetime) -> int:
    """Drop the sums of windows that ended before ``moment`` and return how many rows there were."""
    rewrite(connection)
    row = connection.execute(_DELETE_BEFORE, (moment,)).fetchone()
    assert row is not None
    return int(row[0])
