CREATE OR REPLACE VIEW oar_compat.moldable_job_descriptions AS
SELECT number AS moldable_id, job_id AS moldable_job_id, extract(epoch FROM walltime)::integer AS moldable_walltime,
       index AS moldable_index
FROM oar_compat.alternatives;
COMMENT ON VIEW oar_compat.moldable_job_descriptions IS
    'the alternatives of requests; that of a job which was chosen, or is predicted, has the job''s number';
COMMENT ON COLUMN oar_compat.moldable_job_descriptions.moldable_id IS
    'the job''s number for the alternative that it has, is predicted to have, or else the first; others are negative';
COMMENT ON COLUMN oar_compat.moldable_job_descriptions.moldable_job_id IS 'the job';
COMMENT ON COLUMN oar_compat.moldable_job_descriptions.moldable_walltime IS 'walltime, seconds';
COMMENT ON COLUMN oar_compat.moldable_job_descriptions.moldable_index IS 'CURRENT, or LOG once the job is over';
