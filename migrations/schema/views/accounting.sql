CREATE OR REPLACE VIEW oar_report.accounting AS
SELECT date_trunc('day', window_start, 'UTC') AS day, user_name, project, queue_name,
       coalesce(sum(consumption) FILTER (WHERE consumption_type = 'ASKED'), 0)::double precision AS asked_seconds,
       coalesce(sum(consumption) FILTER (WHERE consumption_type = 'USED'), 0)::double precision AS used_seconds,
       (coalesce(sum(consumption) FILTER (WHERE consumption_type = 'USED'), 0) / 3600.0)::double precision AS used_hours,
       (coalesce(sum(consumption) FILTER (WHERE consumption_type = 'GPU_ASKED'), 0) / 3600.0)::double precision
           AS asked_gpu_hours,
       (coalesce(sum(consumption) FILTER (WHERE consumption_type = 'GPU_USED'), 0) / 3600.0)::double precision
           AS used_gpu_hours
FROM public.accounting GROUP BY 1, 2, 3, 4;
COMMENT ON VIEW oar_report.accounting IS 'consumption by day (UTC), user, project and queue';
COMMENT ON COLUMN oar_report.accounting.day IS 'first instant of the day in which the accounting window begins';
COMMENT ON COLUMN oar_report.accounting.user_name IS 'the user';
COMMENT ON COLUMN oar_report.accounting.project IS 'the project';
COMMENT ON COLUMN oar_report.accounting.queue_name IS 'the queue';
COMMENT ON COLUMN oar_report.accounting.asked_seconds IS 'resource-seconds asked for: resources times walltime';
COMMENT ON COLUMN oar_report.accounting.used_seconds IS 'resource-seconds used: resources times run';
COMMENT ON COLUMN oar_report.accounting.used_hours IS 'the same in resource-hours';
COMMENT ON COLUMN oar_report.accounting.asked_gpu_hours IS 'GPUs asked for, or shares of them, times walltime, in hours';
COMMENT ON COLUMN oar_report.accounting.used_gpu_hours IS 'the same of GPUs used, times run';
