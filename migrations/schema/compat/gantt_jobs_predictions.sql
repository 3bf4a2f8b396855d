CREATE OR REPLACE VIEW oar_compat.gantt_jobs_predictions AS
SELECT j.job_id AS moldable_job_id, epoch_seconds(coalesce(j.started_at, (
           SELECT min(lower(a.during)) FROM public.assigned_resources a WHERE a.job_id = j.job_id))) AS start_time
FROM public.jobs j WHERE j.state IN ('toLaunch', 'Launching', 'Running', 'Suspended', 'Resuming')
UNION ALL
SELECT g.job_id, epoch_seconds(g.start_time) FROM public.gantt_predictions g WHERE g.start_time IS NOT NULL
UNION ALL
SELECT 0, epoch_seconds(p.at) FROM public.scheduling_passes p;
COMMENT ON VIEW oar_compat.gantt_jobs_predictions IS 'when jobs start, as the last pass found';
COMMENT ON COLUMN oar_compat.gantt_jobs_predictions.moldable_job_id IS
    'the alternative of the job; 0: the row of the last pass';
COMMENT ON COLUMN oar_compat.gantt_jobs_predictions.start_time IS
    'when it starts, or started, or was given resources; of the last pass when it was, epoch seconds';
