CREATE OR REPLACE VIEW oar_report.lost_jobs AS
SELECT l.job_id, l.attempt, l.user_name, l.network_address, l.resources, l.began_at, l.ended_at, l.exit_status, l.outcome,
       (l.resources * extract(epoch FROM l.ended_at - l.began_at))::double precision AS used_seconds,
       EXISTS (SELECT FROM oar_all.jobs j WHERE j.job_id = l.job_id) AS known, g.found_at
FROM public.lost_jobs l JOIN public.generations g USING (generation);
COMMENT ON VIEW oar_report.lost_jobs IS
    'what nodes ran and the database has lost, because it was restored from an older state; no accounting window has it';
COMMENT ON COLUMN oar_report.lost_jobs.job_id IS 'the job''s number';
COMMENT ON COLUMN oar_report.lost_jobs.attempt IS 'which attempt at it';
COMMENT ON COLUMN oar_report.lost_jobs.user_name IS 'its user, NULL when the node does not know';
COMMENT ON COLUMN oar_report.lost_jobs.network_address IS 'the node that remembers it, its first';
COMMENT ON COLUMN oar_report.lost_jobs.resources IS 'resources of type default that it had on all its nodes';
COMMENT ON COLUMN oar_report.lost_jobs.began_at IS 'when it began, by the clock of the node';
COMMENT ON COLUMN oar_report.lost_jobs.ended_at IS 'when it ended, NULL when that is not known';
COMMENT ON COLUMN oar_report.lost_jobs.exit_status IS 'wait status of its command';
COMMENT ON COLUMN oar_report.lost_jobs.outcome IS 'how it ended: exited, killed, walltime, lost, or what kept it from running';
COMMENT ON COLUMN oar_report.lost_jobs.used_seconds IS 'resource-seconds used: resources times run';
COMMENT ON COLUMN oar_report.lost_jobs.known IS 'whether the database knows a job of that number';
COMMENT ON COLUMN oar_report.lost_jobs.found_at IS 'when the database was found to be restored';
