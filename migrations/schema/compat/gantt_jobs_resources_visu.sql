CREATE OR REPLACE VIEW oar_compat.gantt_jobs_resources_visu AS
SELECT moldable_job_id, resource_id FROM oar_compat.gantt_jobs_resources;
COMMENT ON VIEW oar_compat.gantt_jobs_resources_visu IS 'the same, for programs that draw';
COMMENT ON COLUMN oar_compat.gantt_jobs_resources_visu.moldable_job_id IS 'the alternative of the job';
COMMENT ON COLUMN oar_compat.gantt_jobs_resources_visu.resource_id IS 'a resource of it';
