CREATE OR REPLACE VIEW oar_report.failures AS
SELECT j.job_id, j.ended_at, j.user_name, j.project, j.queue_name, j.state, j.exit_status,
       coalesce(k.reason, e.type, CASE WHEN j.state = 'Terminated' THEN 'exit status' ELSE 'unknown' END) AS cause,
       n.network_address
FROM oar_all.jobs j
LEFT JOIN oar_all.kill_requests k ON k.month = j.month AND k.job_id = j.job_id
LEFT JOIN LATERAL (
    SELECT l.type FROM oar_all.event_logs l WHERE l.month = j.month AND l.job_id = j.job_id AND j.state = 'Error'
    ORDER BY l.at DESC, l.event_id DESC LIMIT 1
) e ON true
LEFT JOIN LATERAL (
    SELECT DISTINCT r.network_address
    FROM oar_all.assigned_resources a JOIN public.resources r USING (resource_id)
    WHERE a.month = j.month AND a.job_id = j.job_id AND r.network_address IS NOT NULL
) n ON true
WHERE j.ended_at IS NOT NULL AND (j.state = 'Error' OR j.exit_status <> 0);
COMMENT ON VIEW oar_report.failures IS
    'a job that ended in Error or with another exit status than 0, and a node of it; several rows for several nodes';
COMMENT ON COLUMN oar_report.failures.job_id IS 'the job';
COMMENT ON COLUMN oar_report.failures.ended_at IS 'when it ended';
COMMENT ON COLUMN oar_report.failures.user_name IS 'its user';
COMMENT ON COLUMN oar_report.failures.project IS 'its project';
COMMENT ON COLUMN oar_report.failures.queue_name IS 'its queue';
COMMENT ON COLUMN oar_report.failures.state IS 'Error, or Terminated';
COMMENT ON COLUMN oar_report.failures.exit_status IS 'wait status of its command';
COMMENT ON COLUMN oar_report.failures.cause IS
    'why it was killed (oardel, walltime, ...), else the last event of it, else exit status or unknown';
COMMENT ON COLUMN oar_report.failures.network_address IS 'a node that it held; NULL if it held none';
