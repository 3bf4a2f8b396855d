CREATE OR REPLACE VIEW oar_compat.job_types AS
SELECT NULL::integer AS job_type_id, j.job_id, word AS type, 'CURRENT'::text AS types_index
FROM public.jobs j CROSS JOIN LATERAL unnest(j.types) word WHERE is_live(j.state)
UNION ALL
SELECT NULL, j.job_id, word, 'LOG' FROM public.jobs j CROSS JOIN LATERAL unnest(j.types) word
WHERE j.state IN ('Terminated', 'Error');
COMMENT ON VIEW oar_compat.job_types IS 'the words of oarsub -t';
COMMENT ON COLUMN oar_compat.job_types.job_type_id IS 'always NULL';
COMMENT ON COLUMN oar_compat.job_types.job_id IS 'the job';
COMMENT ON COLUMN oar_compat.job_types.type IS 'the word';
COMMENT ON COLUMN oar_compat.job_types.types_index IS 'CURRENT, or LOG once the job is over';
