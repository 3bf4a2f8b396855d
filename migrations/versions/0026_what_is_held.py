"""What a job held is recorded as ranges, and the exclusion has no holes.

Revision ID: 0026
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from oarpy.model.errors import OarpyError
from oarpy.store.schema.statements import make

revision = "0026"
down_revision = "0025"

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
    """
    ALTER TABLE assigned_resources
        DROP CONSTRAINT one_exclusive_holder, DROP CONSTRAINT assigned_resources_during_check
    """,
    "DROP INDEX assigned_resources_held, assigned_resources_suspended",
    "DELETE FROM assigned_resources WHERE isempty(during)",
    """
    ALTER TABLE assigned_resources ALTER COLUMN during TYPE tstzmultirange USING tstzmultirange(during),
        ADD COLUMN guest boolean NOT NULL DEFAULT false
    """,
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
    UPDATE assigned_resources a SET suspended = a.suspended AND is_live(j.state),
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
    "ALTER TABLE jobs DROP CONSTRAINT jobs_moldable_id_fkey",
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

_RULES = (
    """
    ALTER TABLE assigned_resources
        ADD CONSTRAINT assigned_resources_during_check
            CHECK ((NOT isempty(during)) AND (isempty(during) OR ((NOT lower_inf(during))
                AND (lower(during) >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
                AND (upper_inf(during) OR (upper(during) < TIMESTAMPTZ '3000-01-01 00:00:00+00'))))),
        ADD CONSTRAINT held_or_given_back CHECK (NOT (suspended AND upper_inf(during)))
    """,
    "CREATE INDEX assigned_resources_held ON assigned_resources (resource_id) WHERE upper_inf(during) OR suspended",
    "COMMENT ON COLUMN assigned_resources.during IS 'when it held it, without an upper end while it does; a range for"
    " each time, if it was suspended in between'",
    "COMMENT ON COLUMN assigned_resources.exclusive IS 'whether nobody else may hold it meanwhile, but guests of those"
    " who share'",
    "COMMENT ON COLUMN assigned_resources.guest IS 'whether it may be beside holders that share: inside a container, or"
    " where a placeholder allows it'",
    "DELETE FROM reserved_resources WHERE isempty(during)",
    """
    ALTER TABLE reserved_resources DROP CONSTRAINT reserved_resources_during_check,
        ADD CONSTRAINT reserved_resources_during_check
            CHECK ((NOT isempty(during)) AND (isempty(during) OR ((NOT lower_inf(during))
            AND (lower(during) >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
            AND (upper_inf(during) OR (upper(during) < TIMESTAMPTZ '3000-01-01 00:00:00+00')))))
    """,
    """
    ALTER TABLE moldable_descriptions
        ADD CONSTRAINT moldable_descriptions_of_submission UNIQUE (submission_id, moldable_id)
    """,
    """
    ALTER TABLE jobs
        ADD CONSTRAINT jobs_job_id_check CHECK (job_id > 0),
        ADD CONSTRAINT alternative_of_its_submission FOREIGN KEY (submission_id, moldable_id)
            REFERENCES moldable_descriptions (submission_id, moldable_id)
    """,
    "COMMENT ON COLUMN jobs.moldable_id IS 'the alternative of its submission that was chosen'",
    "DROP INDEX jobs_array",
    "CREATE UNIQUE INDEX jobs_array ON jobs (array_id, array_index)",
    """
    CREATE INDEX jobs_once_suspended ON jobs (ended_at)
        WHERE (ended_at IS NOT NULL) AND (suspended_time > interval '0')
    """,
)
# What the functions and views said before, as parts of their text.
_FORMER = {
    "jobs_moved": (
        (
            "held_until(a.during, moment), suspended = false",
            "tstzrange(lower(a.during), greatest(moment, lower(a.during) + interval '1 microsecond'))",
        ),
        ("AND (upper_inf(a.during) OR a.suspended)", "AND upper_inf(a.during)"),
    ),
    "held_blocks_stay": (("AND (upper_inf(a.during) OR a.suspended)", "AND upper_inf(a.during)"),),
}
_BACK = (
    """
    CREATE OR REPLACE VIEW oar_report.assigned_resources AS
    SELECT a.job_id, j.user_name, j.project, j.queue_name, a.resource_id, r.type AS resource_type, r.network_address,
           NULL::timestamptz AS assigned_at, NULL::timestamptz AS released_at, NULL::double precision AS seconds,
           a.exclusive
    FROM public.assigned_resources a JOIN public.jobs j USING (job_id) JOIN public.resources r USING (resource_id)
    """,
    "DROP FUNCTION holding_stays, holdings_stay, held_resources_stay, sharing_by_type CASCADE",
    "DROP FUNCTION may_rewrite_history, held_until",
    "DROP INDEX jobs_once_suspended, jobs_array, assigned_resources_held",
    "CREATE INDEX jobs_array ON jobs (array_id)",
    """
    ALTER TABLE jobs DROP CONSTRAINT alternative_of_its_submission, DROP CONSTRAINT jobs_job_id_check,
        ADD CONSTRAINT jobs_moldable_id_fkey FOREIGN KEY (moldable_id) REFERENCES moldable_descriptions (moldable_id)
    """,
    "ALTER TABLE moldable_descriptions DROP CONSTRAINT moldable_descriptions_of_submission",
    """
    ALTER TABLE reserved_resources DROP CONSTRAINT reserved_resources_during_check,
        ADD CONSTRAINT reserved_resources_during_check
            CHECK ((upper(during) > lower(during)) AND (isempty(during) OR ((NOT lower_inf(during))
            AND (lower(during) >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
            AND (upper_inf(during) OR (upper(during) < TIMESTAMPTZ '3000-01-01 00:00:00+00')))))
    """,
    """
    ALTER TABLE assigned_resources DROP CONSTRAINT one_exclusive_holder, DROP CONSTRAINT held_or_given_back,
        DROP CONSTRAINT assigned_resources_during_check, DROP COLUMN guest,
        ALTER COLUMN during TYPE tstzrange USING CASE
            WHEN suspended THEN tstzrange(lower(during), NULL) ELSE range_merge(during) END
    """,
    """
    ALTER TABLE assigned_resources
        ADD CONSTRAINT assigned_resources_during_check CHECK (isempty(during) OR ((NOT lower_inf(during))
            AND (lower(during) >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
            AND (upper_inf(during) OR (upper(during) < TIMESTAMPTZ '3000-01-01 00:00:00+00')))),
        ADD CONSTRAINT one_exclusive_holder
            EXCLUDE USING gist (resource_id WITH =, during WITH &&) WHERE (exclusive AND (NOT suspended))
    """,
    "COMMENT ON COLUMN assigned_resources.during IS 'when it held it, without an upper end while it does; from its last"
    " resumption on if it was suspended'",
    "COMMENT ON COLUMN assigned_resources.exclusive IS 'whether nobody else may hold it meanwhile'",
    "COMMENT ON COLUMN jobs.moldable_id IS 'the alternative that was chosen'",
    """
    COMMENT ON VIEW oar_report.assigned_resources IS 'which job held which resource, and when';
    COMMENT ON COLUMN oar_report.assigned_resources.released_at IS 'when it gave it back, NULL if it holds it';
    COMMENT ON COLUMN oar_report.assigned_resources.exclusive IS 'whether no other job could hold it meanwhile';
    """,
    "CREATE INDEX assigned_resources_held ON assigned_resources (resource_id) WHERE upper_inf(during)",
    "CREATE INDEX assigned_resources_suspended ON assigned_resources (resource_id) WHERE suspended",
    """
    CREATE OR REPLACE VIEW oar_report.assigned_resources AS
    SELECT a.job_id, j.user_name, j.project, j.queue_name, a.resource_id, r.type AS resource_type, r.network_address,
           lower(a.during) AS assigned_at, upper(a.during) AS released_at,
           extract(epoch FROM coalesce(upper(a.during), now()) - lower(a.during))::double precision AS seconds,
           a.exclusive
    FROM public.assigned_resources a JOIN public.jobs j USING (job_id) JOIN public.resources r USING (resource_id)
    """,
)
# a view loses a column only with everything else
_FORMER_JOBS = """
DROP VIEW oar_report.jobs;
CREATE OR REPLACE VIEW oar_report.jobs AS
SELECT j.job_id, j.array_id, j.array_index, j.job_name, j.user_name, j.project, j.queue_name, j.kind, j.types, j.state,
       j.message, j.exit_status, j.attempt, j.resubmit_of, j.reservation_start,
       j.submitted_at, j.started_at, j.ended_at,
       extract(epoch FROM coalesce(j.started_at, j.ended_at, now()) - j.submitted_at)::double precision AS wait_seconds,
       extract(epoch FROM coalesce(j.ended_at, now()) - j.started_at)::double precision AS run_seconds,
       extract(epoch FROM j.walltime)::double precision AS walltime_seconds,
       held.nodes, held.resources, held.cores,
       (held.cores * extract(epoch FROM coalesce(j.ended_at, now()) - j.started_at) / 3600)::double precision
           AS core_hours,
       (held.cores * extract(epoch FROM j.walltime) / 3600)::double precision AS asked_core_hours
FROM public.jobs j
CROSS JOIN LATERAL (
    SELECT count(DISTINCT r.network_address)::integer AS nodes, count(*)::integer AS resources,
           (count(DISTINCT r.core) + count(*) FILTER (WHERE r.core IS NULL))::integer AS cores
    FROM public.assigned_resources a JOIN public.resources r USING (resource_id)
    WHERE a.job_id = j.job_id AND r.type = 'default'
) held;
COMMENT ON VIEW oar_report.jobs IS 'every job, finished or not, with its wait, its run and what it holds or held';
COMMENT ON COLUMN oar_report.jobs.job_id IS 'the job''s number';
COMMENT ON COLUMN oar_report.jobs.array_id IS 'number of the first job of its array; its own number for a single job';
COMMENT ON COLUMN oar_report.jobs.array_index IS 'place in the array, from 1';
COMMENT ON COLUMN oar_report.jobs.job_name IS 'name given by the user, empty if none';
COMMENT ON COLUMN oar_report.jobs.user_name IS 'who submitted it';
COMMENT ON COLUMN oar_report.jobs.project IS 'project that it counts for';
COMMENT ON COLUMN oar_report.jobs.queue_name IS 'queue that it is in';
COMMENT ON COLUMN oar_report.jobs.kind IS 'PASSIVE (a script) or INTERACTIVE';
COMMENT ON COLUMN oar_report.jobs.types IS 'the words of oarsub -t';
COMMENT ON COLUMN oar_report.jobs.state IS 'present state';
COMMENT ON COLUMN oar_report.jobs.message IS 'last remark of the system on it';
COMMENT ON COLUMN oar_report.jobs.exit_status IS 'wait status of its command';
COMMENT ON COLUMN oar_report.jobs.attempt IS 'how often it was launched';
COMMENT ON COLUMN oar_report.jobs.resubmit_of IS 'the job that it repeats';
COMMENT ON COLUMN oar_report.jobs.reservation_start IS 'start asked for by an advance reservation';
COMMENT ON COLUMN oar_report.jobs.submitted_at IS 'when it was submitted';
COMMENT ON COLUMN oar_report.jobs.started_at IS 'when its command started';
COMMENT ON COLUMN oar_report.jobs.ended_at IS 'when it reached Terminated or Error';
COMMENT ON COLUMN oar_report.jobs.wait_seconds IS
    'from submission to start; to its end if it never started; to now if it waits';
COMMENT ON COLUMN oar_report.jobs.run_seconds IS 'from start to end, or to now; NULL if it never started';
COMMENT ON COLUMN oar_report.jobs.walltime_seconds IS 'walltime of the alternative that was chosen, NULL before';
COMMENT ON COLUMN oar_report.jobs.nodes IS 'nodes that it holds or held';
COMMENT ON COLUMN oar_report.jobs.resources IS 'resources of type default that it holds or held';
COMMENT ON COLUMN oar_report.jobs.cores IS 'distinct cores among them; a resource without a core counts as one';
COMMENT ON COLUMN oar_report.jobs.core_hours IS 'cores times hours of run';
COMMENT ON COLUMN oar_report.jobs.asked_core_hours IS 'cores times hours of walltime';
"""
_FUNCTIONS = (
    "may_rewrite_history",
    "held_until",
    "held_resources_stay",
    "held_blocks_stay",
    "holding_stays",
    "holdings_stay",
    "sharing_by_type",
)


def upgrade() -> None:
    """Change columns, constraints and indexes; rows that contradict are mended, or named."""
    connection = op.get_bind()
    for statement in (*_RANGES, *_ALTERNATIVES, _NUMBERS):
        connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
    _hold_alone(connection)
    for statement in _RULES:
        connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
    make(connection, "functions", *_FUNCTIONS)


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


def downgrade() -> None:
    """Take it back: of several ranges of a job, the begin of the first and the end of the last are left."""
    connection = op.get_bind()
    for name, changes in _FORMER.items():
        (definition,) = connection.execute(
            text("SELECT pg_get_functiondef(cast(:name AS regproc))"), {"name": name}
        ).one()
        for present, former in changes:
            definition = definition.replace(present, former)
        connection.exec_driver_sql(definition, execution_options={"no_parameters": True})
    for statement in (*_BACK, _FORMER_JOBS):
        connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
