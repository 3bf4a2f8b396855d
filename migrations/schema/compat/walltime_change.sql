CREATE OR REPLACE VIEW oar_compat.walltime_change AS
SELECT job_id, extract(epoch FROM pending)::integer AS pending, yes_or_no(forced) AS force,
       yes_or_no(delay_next_jobs) AS delay_next_jobs, extract(epoch FROM granted)::integer AS granted,
       extract(epoch FROM granted_with_force)::integer AS granted_with_force,
       extract(epoch FROM granted_with_delay_next_jobs)::integer AS granted_with_delay_next_jobs
FROM public.walltime_changes;
COMMENT ON VIEW oar_compat.walltime_change IS 'what oarwalltime asked for and got';
COMMENT ON COLUMN oar_compat.walltime_change.job_id IS 'the job';
COMMENT ON COLUMN oar_compat.walltime_change.pending IS 'asked for and not granted yet, seconds';
COMMENT ON COLUMN oar_compat.walltime_change.force IS 'whether it is forced';
COMMENT ON COLUMN oar_compat.walltime_change.delay_next_jobs IS 'whether it may delay predicted jobs';
COMMENT ON COLUMN oar_compat.walltime_change.granted IS 'sum of what was granted, seconds';
COMMENT ON COLUMN oar_compat.walltime_change.granted_with_force IS 'the part that was forced, seconds';
COMMENT ON COLUMN oar_compat.walltime_change.granted_with_delay_next_jobs IS
    'the part that was allowed to delay others, seconds';
