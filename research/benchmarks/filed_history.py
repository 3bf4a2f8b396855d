"""A history of any length, written to the tables of the past month by month, and what a report of a month takes on it.

Jobs are those of ``benchmarks.history``: 30 seconds apart, in submissions of 100, of 200 users, 20 seconds long.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import groupby

import psycopg

from oarpy.client.analytics import report
from oarpy.store.database import connect
from oarpy.store.past import months
from oarpy.store.past.tables import filed_tables

APART = timedelta(seconds=30)
SIZE = 100
_FIRST = "SELECT (SELECT last_value FROM jobs_job_id_seq), (SELECT max(submission_id) FROM submissions)"
_TABLES = frozenset(
    {"submissions", "moldable_descriptions", "jobs", "job_state_logs", "assigned_resources", "event_logs"}
)
_ROWS = (
    """
    INSERT INTO oar_past.submissions (month, submission_id, initial_request)
    SELECT %(month)s, %(submission)s + s, 'history' FROM generate_series(%(first)s::bigint, %(last)s) AS s
    """,
    """
    INSERT INTO oar_past.moldable_descriptions (month, moldable_id, submission_id, position, walltime)
    SELECT %(month)s, %(submission)s + s, %(submission)s + s, 0, interval '1 hour'
    FROM generate_series(%(first)s::bigint, %(last)s) AS s
    """,
    """
    INSERT INTO oar_past.jobs (month, job_id, submission_id, array_id, array_index, user_name, queue_name, state,
                               moldable_id, walltime, exit_status, submitted_at, started_at, ended_at, accounted,
                               command, attempt)
    SELECT %(month)s, %(job)s + s * 100 + i, %(submission)s + s, %(job)s + s * 100 + 1, i, 'user' || (s %% 200),
           'default', CASE WHEN i %% 20 = 0 THEN 'Error' ELSE 'Terminated' END, %(submission)s + s, interval '1 hour',
           0, t.at, t.at + interval '5 seconds', t.at + interval '25 seconds', true, 'history', 1
    FROM generate_series(%(first)s::bigint, %(last)s) AS s CROSS JOIN generate_series(1, 100) AS i,
        LATERAL (SELECT %(begin)s::timestamptz + interval '30 seconds' * (s * 100 + i) AS at) t
    """,
    """
    INSERT INTO oar_past.job_state_logs (month, job_id, state, during)
    SELECT month, job_id, s.state, s.during FROM oar_past.jobs j, LATERAL (VALUES
        ('Waiting', tstzrange(j.submitted_at, j.started_at)), ('Running', tstzrange(j.started_at, j.ended_at)),
        (j.state, tstzrange(j.ended_at, NULL))) AS s(state, during)
    WHERE month = %(month)s
    """,
    """
    INSERT INTO oar_past.assigned_resources (month, job_id, resource_id, during)
    SELECT month, j.job_id, r.resource_id, tstzmultirange(tstzrange(j.started_at, j.ended_at))
    FROM oar_past.jobs j JOIN (SELECT resource_id, row_number() OVER (ORDER BY resource_id) - 1 AS place,
                                      count(*) OVER () AS total FROM resources) r ON r.place = j.job_id %% r.total
    WHERE month = %(month)s
    """,
    """
    INSERT INTO oar_past.event_logs (month, event_id, at, type, job_id, description)
    SELECT month, job_id, ended_at, 'KILLED', job_id, 'history' FROM oar_past.jobs
    WHERE month = %(month)s AND state = 'Error'
    """,
    """
    INSERT INTO job_days AS d
    SELECT (ended_at AT TIME ZONE 'UTC')::date, user_name, project, queue_name, count(*),
           count(*) FILTER (WHERE state = 'Error'), count(*), 5 * count(*), 5, 1.25 * count(*), 0, 0
    FROM oar_past.jobs WHERE month = %(month)s GROUP BY 1, 2, 3, 4
    ON CONFLICT (day, user_name, project, queue_name) DO UPDATE
        SET jobs = d.jobs + excluded.jobs, started = d.started + excluded.started, failed = d.failed + excluded.failed
    """,
    """
    INSERT INTO accounting AS a
    SELECT date_trunc('day', started_at, 'UTC'), date_trunc('day', started_at, 'UTC') + interval '1 day', user_name,
           project, queue_name, kind.name, sum(kind.seconds)
    FROM oar_past.jobs, (VALUES ('USED', 20), ('ASKED', 3600)) AS kind(name, seconds)
    WHERE month = %(month)s GROUP BY 1, 2, 3, 4, 5, 6
    ON CONFLICT (window_start, window_stop, user_name, project, queue_name, consumption_type)
        DO UPDATE SET consumption = a.consumption + excluded.consumption
    """,
    """
    INSERT INTO past_months (month, jobs, first_job, last_job)
    SELECT month, count(*), min(job_id), max(job_id) FROM oar_past.jobs WHERE month = %(month)s GROUP BY month
    """,
)
_COUNTING = "SELECT set_config('oarpy.counting', 'on', true)"
_LAST = """
    SELECT setval('jobs_job_id_seq', (SELECT max(last_job) FROM past_months)),
           setval(pg_get_serial_sequence('submissions', 'submission_id'), %(last)s),
           setval(pg_get_serial_sequence('moldable_descriptions', 'moldable_id'), %(last)s),
           setval(pg_get_serial_sequence('event_logs', 'event_id'), (SELECT max(last_job) FROM past_months))
"""
_LONG_AGO = "UPDATE resource_state_logs SET during = tstzrange(%s, upper(during)) WHERE upper_inf(during)"


def file_jobs(dsn: str, jobs: int) -> int:
    """Write ``jobs`` (a multiple of 100) jobs to the past, with sums; return the number of the first."""
    begin = datetime.now(UTC) - timedelta(days=1) - APART * jobs
    with connect(dsn, "bench") as connection:
        row = connection.execute(_FIRST).fetchone()
        assert row is not None
        job, submission = row[0] + SIZE, (row[1] or 0) + 1_000_000
        with connection.transaction():
            connection.execute("SET LOCAL oarpy.rewrite_history = on")
            connection.execute(_LONG_AGO, [begin])
        for month, first, last in _months(begin, jobs // SIZE):
            values = {
                "month": month,
                "first": first,
                "last": last,
                "job": job,
                "submission": submission,
                "begin": begin,
            }
            with connection.transaction():
                for table in filed_tables(connection):
                    if table.name in _TABLES:
                        months.make_partition(connection, table, month)
                connection.execute(_COUNTING)
                for statement in _ROWS:
                    connection.execute(statement, values)
        connection.execute(_LAST, {"last": submission + jobs // SIZE})
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    return int(job) + 1


def report_seconds(dsn: str, times: int) -> tuple[date, float]:
    """Return the largest month, and the seconds that a report of it takes, the shortest of ``times``."""
    with connect(dsn, "bench") as connection:
        month = max(months.months(connection), key=lambda month_row: month_row.jobs).month
        spent = []
        for _ in range(times):
            began = time.perf_counter()
            first, end = report.period(f"{month:%Y-%m}")
            report.page(report.tables(connection, first, end), first, end)
            spent.append(time.perf_counter() - began)
    return month, min(spent)


def _months(begin: datetime, submissions: int) -> Iterator[tuple[date, int, int]]:
    """Yield each month with its first and last submission: one is filed in the month in which its last job ends."""

    def month_of(number: int) -> date:
        return (begin + APART * (number + 1) * SIZE + APART).date().replace(day=1)

    for month, some in groupby(range(submissions), key=month_of):
        numbers = list(some)
        yield month, numbers[0], numbers[-1]
