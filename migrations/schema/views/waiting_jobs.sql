CREATE OR REPLACE VIEW oar_report.waiting_jobs AS
SELECT j.job_id, j.user_name, j.project, j.queue_name, q.priority AS queue_priority, j.state, j.submitted_at,
       extract(epoch FROM now() - j.submitted_at)::double precision AS waiting_seconds,
       CASE WHEN j.state = 'Hold' THEN coalesce(g.verdict, 'held') ELSE g.verdict END AS verdict,
       coalesce(g.reason, '') AS reason, g.start_time AS predicted_start, g.end_time AS predicted_end
FROM public.jobs j JOIN public.queues q USING (queue_name) LEFT JOIN public.gantt_predictions g USING (job_id)
WHERE j.state IN ('Hold', 'Waiting', 'toAckReservation') AND j.state NOT IN ('Terminated', 'Error');
COMMENT ON VIEW oar_report.waiting_jobs IS 'jobs that have not started, with why and until when';
COMMENT ON COLUMN oar_report.waiting_jobs.job_id IS 'the job';
COMMENT ON COLUMN oar_report.waiting_jobs.user_name IS 'its user';
COMMENT ON COLUMN oar_report.waiting_jobs.project IS 'its project';
COMMENT ON COLUMN oar_report.waiting_jobs.queue_name IS 'its queue';
COMMENT ON COLUMN oar_report.waiting_jobs.queue_priority IS 'priority of the queue; higher ones are planned first';
COMMENT ON COLUMN oar_report.waiting_jobs.state IS 'Hold, Waiting or toAckReservation';
COMMENT ON COLUMN oar_report.waiting_jobs.submitted_at IS 'when it was submitted';
COMMENT ON COLUMN oar_report.waiting_jobs.waiting_seconds IS 'how long it has waited';
COMMENT ON COLUMN oar_report.waiting_jobs.verdict IS 'what the last scheduling pass found, NULL before the first';
COMMENT ON COLUMN oar_report.waiting_jobs.reason IS 'the same in words';
COMMENT ON COLUMN oar_report.waiting_jobs.predicted_start IS 'predicted start, NULL without a prediction';
COMMENT ON COLUMN oar_report.waiting_jobs.predicted_end IS 'predicted start plus walltime';
