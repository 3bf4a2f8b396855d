CREATE OR REPLACE VIEW oar_report.assigned_resources AS
SELECT a.job_id, j.user_name, j.project, j.queue_name, a.resource_id, r.type AS resource_type, r.network_address,
       lower(stretch) AS assigned_at, upper(stretch) AS released_at,
       extract(epoch FROM coalesce(upper(stretch), now()) - lower(stretch))::double precision AS seconds, a.exclusive
FROM oar_all.assigned_resources a JOIN oar_all.jobs j USING (month, job_id) JOIN public.resources r USING (resource_id)
CROSS JOIN LATERAL unnest(a.during) stretch;
COMMENT ON VIEW oar_report.assigned_resources IS 'which job held which resource, and when; several rows if it was suspended in between';
COMMENT ON COLUMN oar_report.assigned_resources.job_id IS 'the job';
COMMENT ON COLUMN oar_report.assigned_resources.user_name IS 'its user';
COMMENT ON COLUMN oar_report.assigned_resources.project IS 'its project';
COMMENT ON COLUMN oar_report.assigned_resources.queue_name IS 'its queue';
COMMENT ON COLUMN oar_report.assigned_resources.resource_id IS 'the resource';
COMMENT ON COLUMN oar_report.assigned_resources.resource_type IS 'its type: default for what computes';
COMMENT ON COLUMN oar_report.assigned_resources.network_address IS 'its node';
COMMENT ON COLUMN oar_report.assigned_resources.assigned_at IS 'when the job got it';
COMMENT ON COLUMN oar_report.assigned_resources.released_at IS 'when it gave it back, at its end or suspended; NULL if it holds it';
COMMENT ON COLUMN oar_report.assigned_resources.seconds IS 'how long it held it, to now if it does';
COMMENT ON COLUMN oar_report.assigned_resources.exclusive IS 'whether no other job could hold it meanwhile, but guests of a job that shares';
