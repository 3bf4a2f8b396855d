CREATE OR REPLACE VIEW oar_compat.frag_jobs AS
SELECT job_id AS frag_id_job, epoch_seconds(requested_at) AS frag_date,
       CASE state WHEN 'asked' THEN 'LEON' WHEN 'decided' THEN 'TIMER_ARMED' ELSE 'FRAGGED' END AS frag_state
FROM public.kill_requests;
COMMENT ON VIEW oar_compat.frag_jobs IS 'who is to be killed';
COMMENT ON COLUMN oar_compat.frag_jobs.frag_id_job IS 'the job';
COMMENT ON COLUMN oar_compat.frag_jobs.frag_date IS 'when that was asked, epoch seconds';
COMMENT ON COLUMN oar_compat.frag_jobs.frag_state IS 'LEON, TIMER_ARMED or FRAGGED';
