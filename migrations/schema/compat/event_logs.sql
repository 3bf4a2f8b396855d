CREATE OR REPLACE VIEW oar_compat.event_logs AS
SELECT event_id, type, coalesce(job_id, 0) AS job_id, epoch_seconds(at) AS date, left(description, 255) AS description,
       'NO'::text AS to_check
FROM public.event_logs;
COMMENT ON VIEW oar_compat.event_logs IS 'what happened to jobs and nodes';
COMMENT ON COLUMN oar_compat.event_logs.event_id IS 'number of the event';
COMMENT ON COLUMN oar_compat.event_logs.type IS 'kind of event';
COMMENT ON COLUMN oar_compat.event_logs.job_id IS 'the job concerned; 0: none';
COMMENT ON COLUMN oar_compat.event_logs.date IS 'when, epoch seconds';
COMMENT ON COLUMN oar_compat.event_logs.description IS 'in words';
COMMENT ON COLUMN oar_compat.event_logs.to_check IS 'always NO';
