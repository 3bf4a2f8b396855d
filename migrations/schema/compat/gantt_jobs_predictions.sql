CREATE OR REPLACE VIEW oar_compat.gantt_jobs_predictions AS
SELECT j.job_id AS moldable_job_id, epoch_seconds(j.started_at) AS start_time
FROM public.jobs j WHERE j.state IN ('Launching', 'Running', 'Suspended', 'Resuming') AND j.started_at IS NOT NULL
UNION ALL
SELECT g.job_id, epoch_seconds(g.start_time) FROM public.gantt_predictions g WHERE g.start_time IS NOT NULL
UNION ALL
SELECT 0, epoch_seconds(p.at) FROM public.scheduling_passes p;
COMMENT ON VIEW oar_compat.gantt_jobs_predictions IS 'when jobs start, as the last pass found';
COMMENT ON COLUMN oar_compat.gantt_jobs_predictions.moldable_job_id IS
    'the alternative of the job; 0: the row of the last pass';
COMMENT ON COLUMN oar_compat.gantt_jobs_predictions.start_time IS
    'when it starts, or started; of the last pass when it was, epoch seconds';
