CREATE OR REPLACE VIEW oar_compat.gantt_jobs_resources AS
SELECT a.job_id AS moldable_job_id, a.resource_id FROM public.assigned_resources a
WHERE upper_inf(a.during) OR a.suspended
UNION ALL
SELECT g.job_id, r.resource_id FROM public.gantt_predictions g CROSS JOIN LATERAL unnest(g.resources) part
JOIN public.resources r ON r.resource_id >= lower(part) AND r.resource_id < upper(part)
WHERE g.start_time IS NOT NULL;
COMMENT ON VIEW oar_compat.gantt_jobs_resources IS 'what jobs hold, or are predicted to hold';
COMMENT ON COLUMN oar_compat.gantt_jobs_resources.moldable_job_id IS 'the alternative of the job';
COMMENT ON COLUMN oar_compat.gantt_jobs_resources.resource_id IS 'a resource of it';
