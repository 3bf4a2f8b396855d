CREATE OR REPLACE VIEW oar_report.predictions AS
SELECT g.job_id, j.user_name, j.queue_name, m.position AS alternative, r.resource_id, r.network_address,
       g.start_time AS predicted_start, g.end_time AS predicted_end
FROM public.gantt_predictions g JOIN public.jobs j USING (job_id)
JOIN public.moldable_descriptions m ON m.moldable_id = g.moldable_id
CROSS JOIN LATERAL unnest(g.resources) part
JOIN public.resources r ON r.resource_id >= lower(part) AND r.resource_id < upper(part);
COMMENT ON VIEW oar_report.predictions IS 'the Gantt of jobs to come: one row for each job and resource';
COMMENT ON COLUMN oar_report.predictions.job_id IS 'the job';
COMMENT ON COLUMN oar_report.predictions.user_name IS 'its user';
COMMENT ON COLUMN oar_report.predictions.queue_name IS 'its queue';
COMMENT ON COLUMN oar_report.predictions.alternative IS 'place of the predicted alternative, from 0';
COMMENT ON COLUMN oar_report.predictions.resource_id IS 'a resource that it is predicted on';
COMMENT ON COLUMN oar_report.predictions.network_address IS 'the node of the resource';
COMMENT ON COLUMN oar_report.predictions.predicted_start IS 'predicted start';
COMMENT ON COLUMN oar_report.predictions.predicted_end IS 'predicted start plus walltime';
