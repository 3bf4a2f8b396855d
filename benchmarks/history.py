"""Fills a database with finished jobs, as years of use would, without going through their lives."""

from __future__ import annotations

import psycopg

_STATEMENTS = (
    "ALTER TABLE jobs DISABLE TRIGGER USER",
    """
    WITH made AS (
        INSERT INTO submissions (initial_request) SELECT 'history' FROM generate_series(1, %(jobs)s / 100)
        RETURNING submission_id)
    INSERT INTO moldable_descriptions (submission_id, position, walltime)
    SELECT submission_id, 0, interval '1 hour' FROM made
    """,
    """
    INSERT INTO jobs (submission_id, array_id, array_index, user_name, queue_name, state, moldable_id, walltime,
                      exit_status, submitted_at, started_at, ended_at, accounted, command, attempt)
    SELECT m.submission_id, m.moldable_id, i, 'user' || (m.moldable_id %% 200), 'default',
           CASE WHEN i %% 20 = 0 THEN 'Error' ELSE 'Terminated' END, m.moldable_id, interval '1 hour', 0,
           t.at, t.at + interval '5 seconds', t.at + interval '25 seconds', true, 'history', 1
    FROM (SELECT row_number() OVER (ORDER BY moldable_id) AS rank, * FROM moldable_descriptions m
          JOIN submissions s USING (submission_id) WHERE s.initial_request = 'history') m
        CROSS JOIN generate_series(1, 100) AS i,
        LATERAL (SELECT now() - interval '1 day'
                        - interval '30 seconds' * (%(jobs)s - (m.rank - 1) * 100 - i + 2) AS at) t
    """,
    "ALTER TABLE jobs ENABLE TRIGGER USER",
    """
    INSERT INTO job_state_logs (job_id, state, during)
    SELECT job_id, s.state, s.during FROM jobs j, LATERAL (VALUES
        ('Waiting', tstzrange(j.submitted_at, j.started_at)), ('Running', tstzrange(j.started_at, j.ended_at)),
        (j.state, tstzrange(j.ended_at, NULL))) AS s(state, during)
    WHERE j.command = 'history'
    """,
    """
    INSERT INTO assigned_resources (job_id, resource_id, during)
    SELECT j.job_id, r.resource_id, tstzmultirange(tstzrange(j.started_at, j.ended_at))
    FROM jobs j JOIN (SELECT resource_id, row_number() OVER (ORDER BY resource_id) - 1 AS place,
                             count(*) OVER () AS total FROM resources) r ON r.place = j.job_id %% r.total
    WHERE j.command = 'history'
    """,
    """
    INSERT INTO event_logs (at, type, job_id, description)
    SELECT ended_at, 'KILLED', job_id, 'history' FROM jobs WHERE command = 'history' AND state = 'Error'
    """,
)


def add_finished_jobs(dsn: str, jobs: int) -> None:
    """Add ``jobs`` (a multiple of 100) jobs that ended long ago, with their logs and resources."""
    with psycopg.connect(dsn) as connection:
        for statement in _STATEMENTS:
            connection.execute(statement, {"jobs": jobs})
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
