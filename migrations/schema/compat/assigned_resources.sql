CREATE OR REPLACE VIEW oar_compat.assigned_resources AS
SELECT job_id AS moldable_job_id, resource_id, 'CURRENT'::text AS assigned_resource_index
FROM public.assigned_resources WHERE upper_inf(during) OR suspended
UNION ALL
SELECT job_id, resource_id, 'LOG' FROM public.assigned_resources WHERE NOT (upper_inf(during) OR suspended);
COMMENT ON VIEW oar_compat.assigned_resources IS 'who holds what, and who held it';
COMMENT ON COLUMN oar_compat.assigned_resources.moldable_job_id IS 'the alternative of the job';
COMMENT ON COLUMN oar_compat.assigned_resources.resource_id IS 'the resource';
COMMENT ON COLUMN oar_compat.assigned_resources.assigned_resource_index IS
    'CURRENT while it is held, or suspended, then LOG';
