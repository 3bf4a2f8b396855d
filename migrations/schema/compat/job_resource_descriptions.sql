CREATE OR REPLACE VIEW oar_compat.job_resource_descriptions AS
SELECT group_id AS res_job_group_id, level AS res_job_resource_type, count AS res_job_value,
       position::integer AS res_job_order, 'CURRENT'::text AS res_job_index
FROM public.resource_descriptions;
COMMENT ON VIEW oar_compat.job_resource_descriptions IS 'the levels of the parts of alternatives';
COMMENT ON COLUMN oar_compat.job_resource_descriptions.res_job_group_id IS 'the part';
COMMENT ON COLUMN oar_compat.job_resource_descriptions.res_job_resource_type IS 'property that is counted';
COMMENT ON COLUMN oar_compat.job_resource_descriptions.res_job_value IS 'how many; -1 = ALL, -2 = BEST, -3 = BESTHALF';
COMMENT ON COLUMN oar_compat.job_resource_descriptions.res_job_order IS 'its place, from 0';
COMMENT ON COLUMN oar_compat.job_resource_descriptions.res_job_index IS 'always CURRENT: jobs share it';
