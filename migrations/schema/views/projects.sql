-- Windows of the accounting begin at midnight in UTC, as periods do. Ended jobs that are not counted yet, and those that
-- hold resources, are looked at one by one: they are few.
CREATE OR REPLACE VIEW oar_report.projects AS
WITH RECURSIVE below (project, part) AS (
    SELECT project, project FROM public.projects
    UNION ALL
    SELECT below.project, p.project FROM below JOIN public.projects p ON p.parent = below.part
), spans AS (
    SELECT p.project, CASE period WHEN 'ever' THEN '-infinity' ELSE date_trunc(period, now(), 'UTC') END AS begins_at,
           CASE period WHEN 'ever' THEN NULL WHEN 'quarter' THEN date_trunc(period, now(), 'UTC') + interval '3 months'
                ELSE date_trunc(period, now(), 'UTC') + ('1 ' || period)::interval END AS ends_at
    FROM public.projects p
), parts AS (
    SELECT below.project, below.part, spans.begins_at, p.weight / 3600 AS weight
    FROM below JOIN spans USING (project) JOIN public.projects p ON p.project = below.part
), weights AS (
    SELECT key AS kind, CASE key WHEN 'core' THEN 'USED' WHEN 'gpu' THEN 'GPU_USED' ELSE key || '_USED' END AS counted_as,
           value::float8 AS weight
    FROM public.scheduling_passes, jsonb_each(billing_weights)
), accounted AS (
    SELECT parts.project, sum(a.consumption * w.weight * parts.weight) AS hours,
           sum(a.consumption * w.weight * parts.weight)
               FILTER (WHERE a.window_start >= now() - interval '7 days') AS lately
    FROM parts JOIN public.accounting a ON a.project = parts.part AND a.window_start >= parts.begins_at
        JOIN weights w ON w.counted_as = a.consumption_type
    WHERE a.queue_name <> 'besteffort'
    GROUP BY parts.project
), live AS (
    SELECT j.project AS part, j.ended_at, coalesce(j.started_at, now()) AS started_at,
           coalesce(j.ended_at, coalesce(j.started_at, now()) + j.walltime) AS over_at,
           coalesce(core.weight, 0) * held.cores + CASE
               WHEN gpu.weight IS NULL OR held.gpus = 0 THEN 0
               WHEN shared.parts IS NOT NULL THEN held.gpus * gpu.weight * shared.parts
               WHEN EXISTS (
                    SELECT FROM public.resource_groups g JOIN public.resource_descriptions d USING (group_id)
                    WHERE g.moldable_id = j.moldable_id AND d.level = 'gpu') THEN held.gpus * gpu.weight
               ELSE 0 END
               + coalesce(amounts.units, 0) AS units
    FROM public.jobs j JOIN public.job_states s USING (state) CROSS JOIN LATERAL (
        SELECT count(*) AS cores, count(DISTINCT to_jsonb(r) ->> 'gpu') AS gpus
        FROM public.assigned_resources a JOIN public.resources r USING (resource_id)
        WHERE a.job_id = j.job_id AND r.type = 'default'
          AND (j.ended_at IS NOT NULL OR upper_inf(a.during) OR a.suspended)
    ) held
    LEFT JOIN weights core ON core.kind = 'core' LEFT JOIN weights gpu ON gpu.kind = 'gpu'
    LEFT JOIN LATERAL (
        SELECT coalesce(max(least(c.amount, 100)) FILTER (WHERE u.name = 'gpu_share'), 0) / 100.0 AS parts
        FROM public.consumption_descriptions c JOIN public.consumables u ON u.name = c.consumable
        WHERE c.moldable_id = j.moldable_id AND u.level = 'gpu' HAVING count(*) > 0
    ) shared ON true
    LEFT JOIN LATERAL (
        SELECT sum(m.amount * w.weight) AS units
        FROM public.assigned_amounts m JOIN weights w ON w.kind = m.consumable
        WHERE m.job_id = j.job_id AND (j.ended_at IS NOT NULL OR upper_inf(m.during))
    ) amounts ON true
    WHERE ((j.ended_at IS NOT NULL AND NOT j.accounted AND j.started_at IS NOT NULL) OR s.holding)
      AND j.queue_name <> 'besteffort' AND NOT 'besteffort' = ANY (j.types)
), running AS (
    SELECT parts.project,
           sum(units * weight * extract(epoch FROM over_at - greatest(started_at, begins_at)))
               FILTER (WHERE ended_at IS NOT NULL) AS ended,
           sum(units * weight * extract(epoch FROM over_at - greatest(started_at, begins_at)))
               FILTER (WHERE ended_at IS NULL) AS held
    FROM parts JOIN live USING (part) WHERE over_at > begins_at AND over_at > started_at
    GROUP BY parts.project
), asked AS (
    SELECT below.project, sum(s.asked_units) AS hours
    FROM below JOIN public.jobs j ON j.project = below.part JOIN public.submissions s USING (submission_id)
    WHERE is_live(j.state) AND j.state IN ('Waiting', 'Hold', 'toAckReservation') AND j.queue_name <> 'besteffort'
    GROUP BY below.project
), sums AS (
    SELECT spans.*, (coalesce(accounted.hours, 0) + coalesce(running.ended, 0))::float8 AS used,
           coalesce(running.held, 0)::float8 AS held, coalesce(asked.hours, 0)::float8 AS asked,
           coalesce(accounted.lately, 0)::float8 AS lately
    FROM spans LEFT JOIN accounted USING (project) LEFT JOIN running USING (project) LEFT JOIN asked USING (project)
)
SELECT p.project, p.parent, p.share, p.weight, p.hours::float8 AS hours, p.period, nullif(s.begins_at, '-infinity')
           AS period_begin, s.ends_at AS period_end, p.until, p.when_spent, s.used AS used_hours, s.held AS held_hours,
       s.asked AS asked_hours, p.hours::float8 - s.used - s.held - s.asked AS left_hours,
       CASE WHEN p.hours <= s.used THEN now() WHEN s.lately > 0 AND (p.hours - s.used) / s.lately < 520
            THEN now() + (p.hours::float8 - s.used) / s.lately * interval '7 days' END AS spent_at
FROM public.projects p JOIN sums s USING (project);
COMMENT ON VIEW oar_report.projects IS 'projects that pay for jobs, and what is left of their hours in the present period: with those below them, without best-effort';
COMMENT ON COLUMN oar_report.projects.project IS 'the project';
COMMENT ON COLUMN oar_report.projects.parent IS 'the project that it is a part of';
COMMENT ON COLUMN oar_report.projects.share IS 'its part among those of the same parent, for fair share';
COMMENT ON COLUMN oar_report.projects.weight IS 'what its jobs are billed, times what they use';
COMMENT ON COLUMN oar_report.projects.hours IS 'billing units, in hours, of each period; NULL: no limit';
COMMENT ON COLUMN oar_report.projects.period IS 'when they begin anew: week, month, quarter, year or ever';
COMMENT ON COLUMN oar_report.projects.period_begin IS 'when the present period began, in UTC; NULL: for ever';
COMMENT ON COLUMN oar_report.projects.period_end IS 'when it is over; NULL: never';
COMMENT ON COLUMN oar_report.projects.until IS 'from when on none of its jobs is submitted or started';
COMMENT ON COLUMN oar_report.projects.when_spent IS 'what becomes of a submission without hours left: refuse, wait or besteffort';
COMMENT ON COLUMN oar_report.projects.used_hours IS 'hours that jobs used which are over';
COMMENT ON COLUMN oar_report.projects.held_hours IS 'hours that jobs which hold resources may use, by their walltimes';
COMMENT ON COLUMN oar_report.projects.asked_hours IS 'hours that jobs which wait asked for';
COMMENT ON COLUMN oar_report.projects.left_hours IS 'what is left of the hours when all of these are used; NULL: no limit';
COMMENT ON COLUMN oar_report.projects.spent_at IS 'when the hours are used up, if jobs go on using them as in the last week; NULL: not foreseen';
