CREATE OR REPLACE VIEW oar_report.assigned_amounts AS
SELECT a.job_id, j.user_name, j.project, j.queue_name, a.consumable, c.level, c.unit, a.block, a.amount,
       lower(a.during) AS assigned_at, upper(a.during) AS released_at,
       extract(epoch FROM coalesce(upper(a.during), now()) - lower(a.during))::double precision AS seconds
FROM oar_all.assigned_amounts a JOIN oar_all.jobs j USING (month, job_id)
    LEFT JOIN public.consumables c ON c.name = a.consumable;
COMMENT ON VIEW oar_report.assigned_amounts IS 'which job held how much of which consumable, where and when';
COMMENT ON COLUMN oar_report.assigned_amounts.job_id IS 'the job';
COMMENT ON COLUMN oar_report.assigned_amounts.user_name IS 'its user';
COMMENT ON COLUMN oar_report.assigned_amounts.project IS 'its project';
COMMENT ON COLUMN oar_report.assigned_amounts.queue_name IS 'its queue';
COMMENT ON COLUMN oar_report.assigned_amounts.consumable IS 'the consumable';
COMMENT ON COLUMN oar_report.assigned_amounts.level IS 'the property whose values have it; NULL once it is gone';
COMMENT ON COLUMN oar_report.assigned_amounts.unit IS 'bytes or count; NULL once it is gone';
COMMENT ON COLUMN oar_report.assigned_amounts.block IS 'the value of that property where the amount is';
COMMENT ON COLUMN oar_report.assigned_amounts.amount IS 'how much';
COMMENT ON COLUMN oar_report.assigned_amounts.assigned_at IS 'when the job got it';
COMMENT ON COLUMN oar_report.assigned_amounts.released_at IS 'when it gave it back, NULL if it holds it';
COMMENT ON COLUMN oar_report.assigned_amounts.seconds IS 'how long it held it, to now if it does';
