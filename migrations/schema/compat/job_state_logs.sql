CREATE OR REPLACE VIEW oar_compat.job_state_logs AS
SELECT NULL::integer AS job_state_log_id, job_id, state AS job_state, epoch_seconds(lower(during)) AS date_start,
       epoch_seconds(upper(during)) AS date_stop
FROM public.job_state_logs;
COMMENT ON VIEW oar_compat.job_state_logs IS 'every state of every job';
COMMENT ON COLUMN oar_compat.job_state_logs.job_state_log_id IS 'always NULL';
COMMENT ON COLUMN oar_compat.job_state_logs.job_id IS 'the job';
COMMENT ON COLUMN oar_compat.job_state_logs.job_state IS 'the state';
COMMENT ON COLUMN oar_compat.job_state_logs.date_start IS 'when it entered it, epoch seconds';
COMMENT ON COLUMN oar_compat.job_state_logs.date_stop IS 'when it left it; 0: it is in it';
