CREATE OR REPLACE VIEW oar_compat.job_dependencies AS
SELECT d.job_id, d.required_job_id AS job_id_required,
       CASE WHEN j.ended_at IS NULL THEN 'CURRENT' ELSE 'LOG' END AS job_dependency_index
FROM public.job_dependencies d JOIN public.jobs j USING (job_id);
COMMENT ON VIEW oar_compat.job_dependencies IS 'which job waits for which';
COMMENT ON COLUMN oar_compat.job_dependencies.job_id IS 'the job that waits';
COMMENT ON COLUMN oar_compat.job_dependencies.job_id_required IS 'the job that must end first';
COMMENT ON COLUMN oar_compat.job_dependencies.job_dependency_index IS 'CURRENT, or LOG once the job is over';
