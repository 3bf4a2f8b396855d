"""Accounting counts hours of GPUs beside those of cores.

Revision ID: 0091
"""

from __future__ import annotations

from alembic import op

from oarpy.store.past.dependent_views import DependentViews
from oarpy.store.schema.statements import driver_of, follow, make

revision = "0091"
down_revision = "0090"

_KINDS = ("ASKED", "USED")
_FORMER = """
CREATE OR REPLACE VIEW oar_report.accounting AS
SELECT date_trunc('day', window_start, 'UTC') AS day, user_name, project, queue_name,
       coalesce(sum(consumption) FILTER (WHERE consumption_type = 'ASKED'), 0)::double precision AS asked_seconds,
       coalesce(sum(consumption) FILTER (WHERE consumption_type = 'USED'), 0)::double precision AS used_seconds,
       (coalesce(sum(consumption) FILTER (WHERE consumption_type = 'USED'), 0) / 3600.0)::double precision AS used_hours
FROM public.accounting GROUP BY 1, 2, 3, 4;
COMMENT ON VIEW oar_report.accounting IS 'consumption by day (UTC), user, project and queue';
COMMENT ON COLUMN oar_report.accounting.day IS 'first instant of the day in which the accounting window begins';
COMMENT ON COLUMN oar_report.accounting.user_name IS 'the user';
COMMENT ON COLUMN oar_report.accounting.project IS 'the project';
COMMENT ON COLUMN oar_report.accounting.queue_name IS 'the queue';
COMMENT ON COLUMN oar_report.accounting.asked_seconds IS 'resource-seconds asked for: resources times walltime';
COMMENT ON COLUMN oar_report.accounting.used_seconds IS 'resource-seconds used: resources times run';
COMMENT ON COLUMN oar_report.accounting.used_hours IS 'the same in resource-hours';
CREATE OR REPLACE VIEW oar_report.jobs AS
SELECT j.job_id, j.array_id, j.array_index, j.job_name, j.user_name, j.project, j.queue_name, j.kind, j.types, j.state,
       j.message, j.exit_status, j.attempt, j.resubmit_of, j.reservation_start,
       j.submitted_at, j.started_at, j.ended_at,
       extract(epoch FROM coalesce(j.started_at, j.ended_at, now()) - j.submitted_at)::double precision AS wait_seconds,
       extract(epoch FROM coalesce(j.ended_at, now()) - j.started_at)::double precision AS run_seconds,
       extract(epoch FROM j.walltime)::double precision AS walltime_seconds,
       held.nodes, held.resources, held.cores,
       (coalesce(resized.seconds, held.cores * CASE WHEN j.started_at IS NOT NULL THEN extract(epoch FROM greatest(
           coalesce(j.ended_at, now()) - j.started_at - stood.still, interval '0')) END) / 3600)::double precision
           AS core_hours,
       ((coalesce(resized.first_cores, held.cores) * extract(epoch FROM j.walltime)
         + coalesce(resized.later_seconds, 0)) / 3600)::double precision AS asked_core_hours,
       extract(epoch FROM stood.still)::double precision AS suspended_seconds
FROM oar_all.jobs j
CROSS JOIN LATERAL (
    SELECT count(DISTINCT r.network_address)::integer AS nodes, count(*)::integer AS resources,
           (count(DISTINCT r.core) + count(*) FILTER (WHERE r.core IS NULL))::integer AS cores
    FROM oar_all.assigned_resources a JOIN public.resources r USING (resource_id)
    WHERE a.month = j.month AND a.job_id = j.job_id AND r.type = 'default'
) held
-- A job that was resized had some of its cores for a part of its run.
LEFT JOIN LATERAL (
    SELECT coalesce(sum(had.seconds), 0) AS seconds, count(*) FILTER (WHERE NOT had.later) AS first_cores,
           coalesce(sum(had.seconds) FILTER (WHERE had.later), 0) AS later_seconds
    FROM (
        SELECT bool_and(a.extension_id IS NOT NULL) AS later, (
                   SELECT sum(extract(epoch FROM upper(part) - lower(part)))
                   FROM unnest(range_agg(a.during)
                               * tstzmultirange(tstzrange(j.started_at, coalesce(j.ended_at, now())))) part
               ) AS seconds
        FROM oar_all.assigned_resources a JOIN public.resources r USING (resource_id)
        WHERE a.month = j.month AND a.job_id = j.job_id AND r.type = 'default'
        GROUP BY r.core, CASE WHEN r.core IS NULL THEN r.resource_id END
    ) had
) resized ON j.started_at < coalesce(j.ended_at, now())
    AND EXISTS (SELECT FROM oar_all.resizes z WHERE z.month = j.month AND z.job_id = j.job_id)
CROSS JOIN LATERAL (SELECT j.suspended_time + coalesce(now() - j.suspended_at, interval '0') AS still) stood;
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
COMMENT ON COLUMN oar_report.jobs.core_hours IS
    'hours for which it had each core and ran, without the time for which it was suspended';
COMMENT ON COLUMN oar_report.jobs.asked_core_hours IS
    'cores times hours of walltime; of those that came while it ran, hours for which it had them';
COMMENT ON COLUMN oar_report.jobs.suspended_seconds IS 'how long it was suspended, in all';
CREATE OR REPLACE VIEW oar_compat.accounting AS
SELECT epoch_seconds(window_start) AS window_start, epoch_seconds(window_stop) AS window_stop,
       user_name AS accounting_user, project AS accounting_project, queue_name, consumption_type,
       round(consumption)::bigint AS consumption
FROM public.accounting;
COMMENT ON VIEW oar_compat.accounting IS 'consumption by window, user, project and queue';
COMMENT ON COLUMN oar_compat.accounting.window_start IS 'begin of the window, epoch seconds';
COMMENT ON COLUMN oar_compat.accounting.window_stop IS 'its end';
COMMENT ON COLUMN oar_compat.accounting.accounting_user IS 'the user';
COMMENT ON COLUMN oar_compat.accounting.accounting_project IS 'the project';
COMMENT ON COLUMN oar_compat.accounting.queue_name IS 'the queue';
COMMENT ON COLUMN oar_compat.accounting.consumption_type IS 'ASKED or USED';
COMMENT ON COLUMN oar_compat.accounting.consumption IS 'resource-seconds';
"""


def _allow(*kinds: str) -> None:
    op.execute("ALTER TABLE accounting DROP CONSTRAINT accounting_consumption_type_check")
    named = ", ".join(f"'{kind}'" for kind in kinds)
    op.execute(
        f"ALTER TABLE accounting ADD CONSTRAINT accounting_consumption_type_check CHECK (consumption_type IN ({named}))"
    )


def _describe(kind: str, amount: str) -> None:
    op.execute(f"COMMENT ON COLUMN accounting.consumption_type IS '{kind}'")
    op.execute(f"COMMENT ON COLUMN accounting.consumption IS '{amount}'")


def upgrade() -> None:
    """Allow two further kinds, and show them."""
    _allow(*_KINDS, "GPU_ASKED", "GPU_USED")
    _describe("ASKED or USED, and the same of GPUs", "resource-seconds, or GPU-seconds")
    make(op.get_bind(), "views", "accounting", "jobs")
    make(op.get_bind(), "compat", "accounting")


def downgrade() -> None:
    """Forget the hours of GPUs."""
    op.execute("SELECT set_config('oarpy.counting', 'on', true)")
    op.execute("DELETE FROM accounting WHERE consumption_type LIKE 'GPU%'")
    _allow(*_KINDS)
    _describe("ASKED or USED", "resource-seconds")
    op.execute("DROP VIEW IF EXISTS oar_report.jobs")
    follow(op.get_bind())
    # those who may read it still can, and what the site made of it stays
    views = DependentViews(driver_of(op.get_bind()), "oar_report.accounting")
    views.put_away()
    op.get_bind().exec_driver_sql(_FORMER, execution_options={"no_parameters": True})
    views.put_back()
