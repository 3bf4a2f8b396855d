-- Accounted windows are a range of the primary key, which begins with window_start.
CREATE OR REPLACE VIEW oar_report.charges AS
SELECT 'accounted' AS source, user_name, project,
       coalesce(sum(consumption) FILTER (WHERE consumption_type = 'ASKED'), 0)::double precision AS asked_seconds,
       coalesce(sum(consumption) FILTER (WHERE consumption_type = 'USED'), 0)::double precision AS used_seconds
FROM public.accounting
WHERE window_start >= now() - (SELECT karma_window FROM public.scheduling_passes) AND queue_name <> 'besteffort'
GROUP BY user_name, project
UNION ALL
SELECT 'held', j.user_name, j.project, sum(h.resources * extract(epoch FROM j.walltime))::double precision,
       sum(h.resources * extract(epoch FROM least(
           greatest(now() - coalesce(j.started_at, now()), interval '0'), p.karma_window)))::double precision
FROM public.scheduling_passes p CROSS JOIN public.jobs j JOIN (
    SELECT job_id, count(*) AS resources
    FROM public.assigned_resources
    WHERE (upper_inf(during) OR suspended)
      -- most are of this type, so that the others are the shorter list
      AND resource_id NOT IN (SELECT resource_id FROM public.resources WHERE type <> 'default')
    GROUP BY job_id
) h USING (job_id)
WHERE j.state IN ('toAckReservation', 'toLaunch', 'Launching', 'Running', 'Suspended', 'Resuming', 'Finishing',
                  'toError')
  AND j.queue_name <> 'besteffort' AND NOT 'besteffort' = ANY (j.types)
GROUP BY j.user_name, j.project;
COMMENT ON VIEW oar_report.charges IS 'what fair share counts: recent consumption, and jobs that hold resources, without best-effort';
COMMENT ON COLUMN oar_report.charges.source IS 'accounted: of jobs that are over; held: of jobs that hold resources now';
COMMENT ON COLUMN oar_report.charges.user_name IS 'the user';
COMMENT ON COLUMN oar_report.charges.project IS 'the project';
COMMENT ON COLUMN oar_report.charges.asked_seconds IS 'resource-seconds asked for: resources times walltime';
COMMENT ON COLUMN oar_report.charges.used_seconds IS 'resource-seconds used, by jobs that hold resources until now';
