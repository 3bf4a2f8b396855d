CREATE OR REPLACE VIEW oar_compat.job_resource_groups AS
SELECT g.group_id AS res_group_id, a.number AS res_group_moldable_id, g.filter AS res_group_property,
       a.index AS res_group_index
FROM oar_compat.alternatives a JOIN public.resource_groups g USING (moldable_id);
COMMENT ON VIEW oar_compat.job_resource_groups IS 'the parts of alternatives, joined by +';
COMMENT ON COLUMN oar_compat.job_resource_groups.res_group_id IS 'number of the part; jobs of an array share it';
COMMENT ON COLUMN oar_compat.job_resource_groups.res_group_moldable_id IS 'the alternative';
COMMENT ON COLUMN oar_compat.job_resource_groups.res_group_property IS 'SQL condition on its resources';
COMMENT ON COLUMN oar_compat.job_resource_groups.res_group_index IS 'CURRENT, or LOG once the job is over';
