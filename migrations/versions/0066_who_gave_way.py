"""Days count the best-effort jobs that gave way; jobs that held resources and never ran begin, as in OAR, with these.

Revision ID: 0066
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0066"
down_revision = "0065"

# Until now no day had any. Months that were dropped stay as they were counted.
_GAVE_WAY = """
    UPDATE job_days d SET gave_way = d.gave_way + n.jobs, wasted_seconds = d.wasted_seconds + n.seconds
    FROM (
        SELECT (j.ended_at AT TIME ZONE 'UTC')::date AS day, j.user_name, j.project, j.queue_name, count(*) AS jobs,
               coalesce(sum(extract(epoch FROM j.ended_at - j.started_at) * (
                   SELECT count(*) FROM {schema}.assigned_resources a JOIN resources r USING (resource_id)
                   WHERE a.job_id = j.job_id AND r.type = 'default')), 0) AS seconds
        FROM {schema}.jobs j JOIN {schema}.kill_requests k USING (job_id)
        WHERE j.accounted AND k.reason = 'BESTEFFORT_KILL' GROUP BY 1, 2, 3, 4
    ) n
    WHERE (d.day, d.user_name, d.project, d.queue_name) = (n.day, n.user_name, n.project, n.queue_name)
      AND n.seconds >= 0
"""

# The views of the older version
_JOBS = """
CREATE OR REPLACE VIEW oar_compat.jobs AS
SELECT j.job_id, j.array_id, j.array_index,
       CASE WHEN private.shown THEN s.initial_request
            ELSE 'oarsub' || coalesce((SELECT string_agg(' -t ' || word, '') FROM unnest(j.types) word), '') END
           AS initial_request,
       j.job_name, CASE WHEN private.shown THEN s.environment::text END AS job_env, j.kind AS job_type,
       s.submitted_from AS info_type, j.state,
       coalesce(j.reservation_state, 'None') AS reservation, j.message, ''::text AS scheduler_info,
       j.user_name AS job_user, j.project, ''::text AS job_group,
       CASE WHEN private.shown THEN j.command ELSE '' END AS command, j.exit_status AS exit_code, j.queue_name,
       j.properties, CASE WHEN private.shown THEN j.launching_directory ELSE '' END AS launching_directory,
       epoch_seconds(j.submitted_at) AS submission_time,
       epoch_seconds(coalesce(j.started_at, j.reservation_start)) AS start_time, epoch_seconds(j.ended_at) AS stop_time,
       NULL::integer AS file_id, yes_or_no(j.accounted) AS accounted,
       CASE WHEN private.shown THEN j.notify ELSE '' END AS notify,
       CASE WHEN j.moldable_id IS NULL THEN 0 ELSE j.job_id END AS assigned_moldable_job,
       extract(epoch FROM j.checkpoint)::integer AS checkpoint, j.checkpoint_signal::integer AS checkpoint_signal,
       CASE WHEN private.shown THEN j.stdout_path ELSE '' END AS stdout_file,
       CASE WHEN private.shown THEN j.stderr_path ELSE '' END AS stderr_file,
       coalesce(j.resubmit_of, 0) AS resubmit_job_id, yes_or_no(j.suspended_time > interval '0') AS suspended
FROM public.jobs j JOIN public.submissions s USING (submission_id)
CROSS JOIN LATERAL (SELECT j.user_name = current_user AS shown) private;
"""
_PREDICTIONS = """
CREATE OR REPLACE VIEW oar_compat.gantt_jobs_predictions AS
SELECT j.job_id AS moldable_job_id, epoch_seconds(j.started_at) AS start_time
FROM public.jobs j WHERE j.state IN ('Launching', 'Running', 'Suspended', 'Resuming') AND j.started_at IS NOT NULL
UNION ALL
SELECT g.job_id, epoch_seconds(g.start_time) FROM public.gantt_predictions g WHERE g.start_time IS NOT NULL
UNION ALL
SELECT 0, epoch_seconds(p.at) FROM public.scheduling_passes p;
"""


def upgrade() -> None:
    """Count them, and replace the views."""
    for schema in ("public", "oar_past"):
        op.execute(_GAVE_WAY.format(schema=schema))
    make(op.get_bind(), "compat", "jobs", "gantt_jobs_predictions", "gantt_jobs_predictions_visu")


def downgrade() -> None:
    """Count none, as the older version does, and have its views back."""
    op.execute("UPDATE job_days SET gave_way = 0, wasted_seconds = 0 WHERE gave_way > 0 OR wasted_seconds > 0")
    for view in (_JOBS, _PREDICTIONS):
        op.get_bind().exec_driver_sql(view, execution_options={"no_parameters": True})
    make(op.get_bind(), "compat", "gantt_jobs_predictions_visu")
