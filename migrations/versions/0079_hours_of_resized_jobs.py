"""Jobs that were resized count each core for as long as they had it; states last when the clock goes back.

Revision ID: 0079
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import follow, make

revision = "0079"
down_revision = "0078"

_FORMER = """
CREATE OR REPLACE VIEW oar_report.jobs AS
SELECT j.job_id, j.array_id, j.array_index, j.job_name, j.user_name, j.project, j.queue_name, j.kind, j.types, j.state,
       j.message, j.exit_status, j.attempt, j.resubmit_of, j.reservation_start,
       j.submitted_at, j.started_at, j.ended_at,
       extract(epoch FROM coalesce(j.started_at, j.ended_at, now()) - j.submitted_at)::double precision AS wait_seconds,
       extract(epoch FROM coalesce(j.ended_at, now()) - j.started_at)::double precision AS run_seconds,
       extract(epoch FROM j.walltime)::double precision AS walltime_seconds,
       held.nodes, held.resources, held.cores,
       (held.cores * CASE WHEN j.started_at IS NOT NULL THEN extract(epoch FROM greatest(
           coalesce(j.ended_at, now()) - j.started_at - stood.still, interval '0')) END / 3600)::double precision
           AS core_hours,
       (held.cores * extract(epoch FROM j.walltime) / 3600)::double precision AS asked_core_hours,
       extract(epoch FROM stood.still)::double precision AS suspended_seconds
FROM oar_all.jobs j
CROSS JOIN LATERAL (
    SELECT count(DISTINCT r.network_address)::integer AS nodes, count(*)::integer AS resources,
           (count(DISTINCT r.core) + count(*) FILTER (WHERE r.core IS NULL))::integer AS cores
    FROM oar_all.assigned_resources a JOIN public.resources r USING (resource_id)
    WHERE a.month = j.month AND a.job_id = j.job_id AND r.type = 'default'
) held
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
COMMENT ON COLUMN oar_report.jobs.core_hours IS 'cores times hours of run, without the time for which it was suspended';
COMMENT ON COLUMN oar_report.jobs.asked_core_hours IS 'cores times hours of walltime';
COMMENT ON COLUMN oar_report.jobs.suspended_seconds IS 'how long it was suspended, in all';
CREATE OR REPLACE VIEW oar_report.efficiency AS
SELECT j.job_id, j.array_id, j.job_name, j.user_name, j.project, j.queue_name, j.state, j.started_at, j.ended_at,
       held.nodes, held.cores, ran.seconds AS run_seconds,
       extract(epoch FROM j.walltime)::double precision AS walltime_seconds,
       held.cores * ran.seconds AS core_seconds, j.cpu_seconds,
       j.cpu_seconds / nullif(held.cores * ran.seconds, 0) AS cpu_efficiency,
       j.memory_peak AS memory_peak_bytes, asked.bytes AS memory_asked_bytes,
       j.memory_peak / nullif(asked.bytes, 0)::double precision AS memory_efficiency
FROM oar_all.jobs j
CROSS JOIN LATERAL (
    SELECT count(DISTINCT r.network_address)::integer AS nodes,
           (count(DISTINCT r.core) + count(*) FILTER (WHERE r.core IS NULL))::integer AS cores
    FROM oar_all.assigned_resources a JOIN public.resources r USING (resource_id)
    WHERE a.month = j.month AND a.job_id = j.job_id AND r.type = 'default'
) held
CROSS JOIN LATERAL (
    SELECT extract(epoch FROM greatest(j.ended_at - j.started_at - j.suspended_time, interval '0'))::double precision
           AS seconds
) ran
CROSS JOIN LATERAL (
    SELECT max(m.amount)::bigint AS bytes FROM oar_all.assigned_amounts m
    WHERE m.month = j.month AND m.job_id = j.job_id AND m.consumable = 'memory'
) asked
WHERE j.cpu_seconds IS NOT NULL AND j.started_at IS NOT NULL AND j.ended_at IS NOT NULL;
COMMENT ON VIEW oar_report.efficiency IS
    'finished jobs whose use was measured on their nodes: CPU time against cores, memory against what was asked';
COMMENT ON COLUMN oar_report.efficiency.job_id IS 'the job''s number';
COMMENT ON COLUMN oar_report.efficiency.array_id IS
    'number of the first job of its array; its own number for a single job';
COMMENT ON COLUMN oar_report.efficiency.job_name IS 'name given by the user, empty if none';
COMMENT ON COLUMN oar_report.efficiency.user_name IS 'who submitted it';
COMMENT ON COLUMN oar_report.efficiency.project IS 'project that it counts for';
COMMENT ON COLUMN oar_report.efficiency.queue_name IS 'queue that it was in';
COMMENT ON COLUMN oar_report.efficiency.state IS 'Terminated or Error';
COMMENT ON COLUMN oar_report.efficiency.started_at IS 'when its command started';
COMMENT ON COLUMN oar_report.efficiency.ended_at IS 'when it reached its final state';
COMMENT ON COLUMN oar_report.efficiency.nodes IS 'nodes that it held';
COMMENT ON COLUMN oar_report.efficiency.cores IS 'distinct cores among them; a resource without a core counts as one';
COMMENT ON COLUMN oar_report.efficiency.run_seconds IS 'from start to end, without the time for which it was suspended';
COMMENT ON COLUMN oar_report.efficiency.walltime_seconds IS 'its walltime';
COMMENT ON COLUMN oar_report.efficiency.core_seconds IS 'cores times seconds of run';
COMMENT ON COLUMN oar_report.efficiency.cpu_seconds IS 'user and system time of its processes, on all its nodes';
COMMENT ON COLUMN oar_report.efficiency.cpu_efficiency IS
    'CPU seconds by core seconds, 1 when every core was busy; NULL when it held none';
COMMENT ON COLUMN oar_report.efficiency.memory_peak_bytes IS
    'the most memory that its processes had on one node, NULL when nobody measured it';
COMMENT ON COLUMN oar_report.efficiency.memory_asked_bytes IS
    'what it held of the consumable memory on one node, NULL without';
COMMENT ON COLUMN oar_report.efficiency.memory_efficiency IS 'memory peak by memory asked, NULL without';
"""


def upgrade() -> None:
    """Make the views and the function anew."""
    make(op.get_bind(), "views", "jobs")  # that of efficiency is made by a later revision, with what it needs
    make(op.get_bind(), "functions", "jobs_moved")


def downgrade() -> None:
    """Make the former views, which older revisions can be left with."""
    follow(op.get_bind())
    op.get_bind().exec_driver_sql(_FORMER, execution_options={"no_parameters": True})
