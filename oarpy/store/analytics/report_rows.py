"""The tables of ``oarpy report`` for a period: each is one query. Periods are whole days in UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from oarpy.store.database import Connection

Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Rows under the names of their columns."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


_OF_PROJECTS = "(%(projects)s::text[] IS NULL OR project = ANY(%(projects)s))"


_OF_ACCOUNTING = """
    SELECT {key}, sum(used_hours) AS used_hours, sum(asked_seconds) / 3600 AS asked_hours
    FROM oar_report.accounting
"""
# By the weights of today, as oar_report.projects has them.
_BILLED = """
    SELECT {key}, (sum(consumption) FILTER (WHERE consumption_type = 'USED') / 3600)::float8 AS used_hours,
           (sum(consumption) FILTER (WHERE consumption_type = 'ASKED') / 3600)::float8 AS asked_hours,
           sum(consumption * (s.billing_weights ->> kind)::float8 * coalesce(p.weight, 1) / 3600)
               FILTER (WHERE queue_name <> 'besteffort') AS billed_hours
    FROM (SELECT date_trunc('day', window_start, 'UTC') AS day, user_name, project, queue_name, consumption_type,
                 consumption, CASE consumption_type WHEN 'USED' THEN 'core' WHEN 'GPU_USED' THEN 'gpu'
                                                    ELSE substring(consumption_type FROM '(.*)_USED$') END AS kind
          FROM accounting) used
        LEFT JOIN projects p USING (project) CROSS JOIN scheduling_passes s
"""


def _usage(key: str, *, billed: bool = False) -> str:
    """Return the query of consumption and waits by a column, the largest user first; ``billed`` with billing units."""
    billed_hours = "coalesce(billed_hours, 0) AS billed_hours, " if billed else ""
    return f"""
        WITH used AS (
            {(_BILLED if billed else _OF_ACCOUNTING).format(key=key)}
            WHERE day >= %(begin)s::timestamp AT TIME ZONE 'UTC'
                AND day < %(end)s::timestamp AT TIME ZONE 'UTC' AND {_OF_PROJECTS} GROUP BY 1
        ), ended AS (
            SELECT {key}, sum(jobs)::bigint AS jobs, sum(failed_jobs)::bigint AS failed_jobs,
                   sum(wait_seconds) / nullif(sum(started_jobs), 0)::float8 AS mean_wait_seconds,
                   max(longest_wait_seconds) AS longest_wait_seconds,
                   sum(bounded_slowdowns) / nullif(sum(started_jobs), 0)::float8 AS mean_bounded_slowdown
            FROM oar_report.daily_jobs WHERE day >= %(begin)s AND day < %(end)s AND {_OF_PROJECTS} GROUP BY 1
        )
        SELECT {key}, coalesce(used_hours, 0) AS used_hours, coalesce(asked_hours, 0) AS asked_hours,
               {billed_hours}coalesce(jobs, 0) AS jobs, coalesce(failed_jobs, 0) AS failed_jobs, mean_wait_seconds,
               longest_wait_seconds, mean_bounded_slowdown
        FROM used FULL JOIN ended USING ({key}) ORDER BY 2 DESC, 1
    """  # noqa: S608 - a name of ours


_DAYS = """
    SELECT u.day, u.capacity_hours, u.used_hours, u.utilisation, coalesce(d.jobs, 0) AS jobs,
           coalesce(d.failed_jobs, 0) AS failed_jobs, d.mean_wait_seconds, d.mean_bounded_slowdown
    FROM oar_report.utilisation u LEFT JOIN (
        SELECT day, sum(jobs)::bigint AS jobs, sum(failed_jobs)::bigint AS failed_jobs,
               sum(wait_seconds) / nullif(sum(started_jobs), 0)::float8 AS mean_wait_seconds,
               sum(bounded_slowdowns) / nullif(sum(started_jobs), 0)::float8 AS mean_bounded_slowdown
        FROM oar_report.daily_jobs WHERE day >= %(begin)s AND day < %(end)s GROUP BY 1
    ) d USING (day)
    WHERE u.day >= %(begin)s AND u.day < %(end)s ORDER BY 1
"""
_FAILURES = """
    SELECT {key}, count(DISTINCT job_id) AS jobs FROM oar_report.failures
    WHERE ended_at >= %(begin)s::timestamp AT TIME ZONE 'UTC' AND ended_at < %(end)s::timestamp AT TIME ZONE 'UTC'
    GROUP BY 1 ORDER BY 2 DESC, 1
"""
_WASTE = """
    SELECT user_name, project, sum(jobs)::bigint AS jobs, sum(wasted_hours) AS wasted_hours
    FROM oar_report.besteffort_waste WHERE day >= %(begin)s AND day < %(end)s GROUP BY 1, 2 ORDER BY 4 DESC, 1, 2
"""
_ACCURACY = """
    SELECT queue_name, sum(jobs)::bigint AS jobs, sum(started)::bigint AS started, sum(inside)::bigint AS inside,
           sum(earlier)::bigint AS earlier, sum(later)::bigint AS later,
           sum(inside) / nullif(sum(started), 0)::float8 AS coverage
    FROM oar_report.prediction_accuracy WHERE day >= %(begin)s AND day < %(end)s GROUP BY 1 ORDER BY 1
"""

_QUERIES: Mapping[str, str] = {
    "days": _DAYS,
    "users": _usage("user_name"),
    "projects": _usage("project"),
    "queues": _usage("queue_name"),
    "causes_of_failures": _FAILURES.format(key="cause"),
    "nodes_of_failures": _FAILURES.format(key="coalesce(network_address, '') AS network_address"),
    "besteffort_waste": _WASTE,
    "predictions": _ACCURACY,
}


_KEYS_OF_ONE = {"users": "user_name", "projects": "project", "queues": "queue_name"}
"""What is reported of one project."""
_BELOW = """
    WITH RECURSIVE below (project) AS (
        SELECT %s::text
        UNION SELECT p.project FROM below JOIN projects p ON p.parent = below.project
    )
    SELECT array_agg(project), bool_or(coalesce(p.weight, 1) <> 1 OR s.billing_weights <> '{"core": 1}')
    FROM below LEFT JOIN projects p USING (project) CROSS JOIN scheduling_passes s
"""


def report_tables(connection: Connection, begin: date, end: date, project: str | None = None) -> dict[str, ReportTable]:
    """Return the tables of the days from ``begin`` up to ``end``, which is not among them, as of one instant.

    Those of a ``project`` are of its jobs, and of the jobs of projects below it, with billing units where weights are
    set.
    """
    tables = {}
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        # short queries over many partitions: compiling them takes longer than they do
        connection.execute("SET LOCAL jit = off")
        projects, queries = None, _QUERIES
        if project is not None:
            projects, weighed = connection.execute(_BELOW, [project]).fetchone() or (None, False)
            queries = {name: _usage(key, billed=bool(weighed)) for name, key in _KEYS_OF_ONE.items()}
        for name, query in queries.items():
            cursor = connection.execute(query, {"begin": begin, "end": end, "projects": projects})
            columns = tuple(column.name for column in cursor.description or ())
            tables[name] = ReportTable(columns, tuple(cursor.fetchall()))
    return tables
