"""What a job held is recorded as ranges, and the exclusion has no holes."""

from __future__ import annotations

from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from oarpy.model.errors import OarpyError

# The suspensions of a job are in the log of its states, so what it really held comes back. Resources that a suspended
# job kept have a range that began before.
_RANGES = (
    """
    CREATE OR REPLACE VIEW oar_report.assigned_resources AS
    SELECT a.job_id, j.user_name, j.project, j.queue_name, a.resource_id, r.type AS resource_type, r.network_address,
           NULL::timestamptz AS assigned_at, NULL::timestamptz AS released_at, NULL::double precision AS seconds,
           a.exclusive
    FROM public.assigned_resources a JOIN public.jobs j USING (job_id) JOIN public.resources r USING (resource_id)
    """,
    "DROP INDEX IF EXISTS assigned_resources_suspended",
    "DELETE FROM assigned_resources WHERE isempty(during)",
    "DELETE FROM reserved_resources WHERE isempty(during)",
    "ALTER TABLE assigned_resources ALTER COLUMN during TYPE tstzmultirange USING tstzmultirange(during)",
    """
    WITH pauses AS (
        SELECT job_id, range_agg(during) AS during FROM job_state_logs
        WHERE state IN ('Suspended', 'Resuming') GROUP BY job_id
    ), begins AS (
        SELECT job_id, max(lower(during)) AS at FROM job_state_logs WHERE state = 'toLaunch' GROUP BY job_id
    )
    UPDATE assigned_resources a SET during = coalesce(nullif(
        tstzmultirange(tstzrange(least(b.at, lower(a.during)), upper(a.during))) - p.during, '{}'), a.during)
    FROM pauses p JOIN begins b USING (job_id)
    WHERE p.job_id = a.job_id AND (a.suspended OR lower(a.during) >= lower(p.during))
    """,
    """
    UPDATE assigned_resources a SET during = a.during * tstzmultirange(tstzrange(NULL, greatest(
        coalesce(j.suspended_at, now()), lower(a.during) + interval '1 microsecond')))
    FROM jobs j WHERE j.job_id = a.job_id AND a.suspended AND upper_inf(a.during)
    """,
    """
    UPDATE assigned_resources a SET suspended = a.suspended AND j.state NOT IN ('Terminated', 'Error'),
        guest = EXISTS (SELECT FROM unnest(j.types) AS word WHERE word LIKE 'inner=%' OR word LIKE 'allowed=%')
    FROM jobs j WHERE j.job_id = a.job_id AND (a.suspended OR j.types <> '{}')
    """,
)
_ALONE = """
    ALTER TABLE assigned_resources
        ADD CONSTRAINT one_exclusive_holder EXCLUDE USING gist (resource_id WITH =, during WITH &&, (CASE
            WHEN NOT exclusive THEN int8range(job_id, job_id, '[]')
            WHEN guest THEN int8range(0, 0, '[]')
            ELSE int8range(0, NULL) END) WITH &&)
"""
_TWICE = """
    SELECT a.job_id, b.job_id, a.resource_id FROM assigned_resources a JOIN assigned_resources b
        ON b.resource_id = a.resource_id AND b.job_id > a.job_id AND b.during && a.during
    WHERE (a.exclusive AND NOT a.guest) OR (b.exclusive AND NOT b.guest)
        OR (a.exclusive AND a.guest AND b.exclusive AND b.guest)
    ORDER BY 1, 2, 3 LIMIT 5
"""
_ALTERNATIVES = (
    """
    UPDATE jobs j SET moldable_id = (
        SELECT own.moldable_id FROM moldable_descriptions own WHERE own.submission_id = j.submission_id
        ORDER BY own.walltime = j.walltime DESC NULLS LAST, own.position LIMIT 1)
    FROM moldable_descriptions m WHERE m.moldable_id = j.moldable_id AND m.submission_id <> j.submission_id
    """,
    "ALTER TABLE jobs DROP CONSTRAINT IF EXISTS jobs_moldable_id_fkey",
)
_NUMBERS = """
    WITH again AS (
        SELECT job_id, array_id, row_number() OVER (PARTITION BY array_id, array_index ORDER BY job_id) AS nth FROM jobs
    ), next AS (
        SELECT a.job_id, (SELECT max(array_index) FROM jobs j WHERE j.array_id = a.array_id)
            + row_number() OVER (PARTITION BY a.array_id ORDER BY a.job_id) AS place
        FROM again a WHERE nth > 1
    )
    UPDATE jobs j SET array_index = next.place FROM next WHERE j.job_id = next.job_id
"""


def rows(connection: Connection) -> None:
    """Change what the columns mean; rows that contradict are mended, or named."""
    for statement in (*_RANGES, *_ALTERNATIVES, _NUMBERS):
        connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
    _hold_alone(connection)


def _hold_alone(connection: Connection) -> None:
    try:
        with connection.begin_nested():
            connection.execute(text(_ALONE))
    except IntegrityError as error:
        twice = connection.execute(text(_TWICE)).fetchall()
        raise OarpyError(
            "assigned_resources says that several had a resource at one time: "
            + ", ".join(f"jobs {one} and {other} resource {resource}" for one, other, resource in twice),
            hint="delete or change the wrong rows by SQL, then upgrade again",
        ) from error
