CREATE OR REPLACE VIEW oar_report.jobs AS
SELECT j.job_id, j.array_id, j.array_index, j.job_name, j.user_name, j.project, j.queue_name, j.kind, j.types, j.state,
       j.message, j.exit_status, j.attempt, j.resubmit_of, j.reservation_start,
       j.submitted_at, j.started_at, j.ended_at,
       extract(epoch FROM coalesce(j.started_at, j.ended_at, now()) - j.submitted_at)::double precision AS wait_seconds,
       extract(epoch FROM coalesce(j.ended_at, now()) - j.started_at)::double precision AS run_seconds,
       extract(epoch FROM j.walltime)::double precision AS walltime_seconds,
       held.nodes, held.resources, held.cores,
       (coalesce(resized.seconds, held.cores * CASE WHEN j.started_at IS NOT NULL THEN extract(epoch FROM greatest(
           coalesce(j.ended_at, now()) - j.started_at - stood.still, interval '0')) END) / 3600)::double precision
           AS core_hours,
       ((coalesce(resized.first_cores, held.cores) * extract(epoch FROM j.walltime)
         + coalesce(resized.later_seconds, 0)) / 3600)::double precision AS asked_core_hours,
       extract(epoch FROM stood.still)::double precision AS suspended_seconds,
       gpus.number AS gpus, (gpus.seconds * coalesce(shared.part, 1) / 3600)::double precision AS gpu_hours
FROM oar_all.jobs j
CROSS JOIN LATERAL (
    SELECT count(DISTINCT r.network_address)::integer AS nodes, count(*)::integer AS resources,
           (count(DISTINCT r.core) + count(*) FILTER (WHERE r.core IS NULL))::integer AS cores
    FROM oar_all.assigned_resources a JOIN public.resources r USING (resource_id)
    WHERE a.month = j.month AND a.job_id = j.job_id AND r.type = 'default'
) held
-- A job that was resized had some of its cores for a part of its run.
LEFT JOIN LATERAL (
    SELECT coalesce(sum(had.seconds), 0) AS seconds, count(*) FILTER (WHERE NOT had.later) AS first_cores,
           coalesce(sum(had.seconds) FILTER (WHERE had.later), 0) AS later_seconds
    FROM (
        SELECT bool_and(a.extension_id IS NOT NULL) AS later, (
                   SELECT sum(extract(epoch FROM upper(part) - lower(part)))
                   FROM unnest(range_agg(a.during) * tstzmultirange(tstzrange(j.started_at, coalesce(j.ended_at, now())))) part
               ) AS seconds
        FROM oar_all.assigned_resources a JOIN public.resources r USING (resource_id)
        WHERE a.month = j.month AND a.job_id = j.job_id AND r.type = 'default'
        GROUP BY r.core, CASE WHEN r.core IS NULL THEN r.resource_id END
    ) had
) resized ON j.started_at < coalesce(j.ended_at, now())
    AND EXISTS (SELECT FROM oar_all.resizes z WHERE z.month = j.month AND z.job_id = j.job_id)
-- A job that asked for GPUs has those that its resources belong to, each for as long as it has any of them. A job that
-- shares GPUs by an amount has its part of each: hundredths, if the amount is gpu_share.
LEFT JOIN LATERAL (
    SELECT coalesce(max(least(c.amount, 100)) FILTER (WHERE u.name = 'gpu_share'), 0) / 100.0 AS part
    FROM oar_all.consumption_descriptions c JOIN public.consumables u ON u.name = c.consumable
    WHERE c.month = j.month AND c.moldable_id = j.moldable_id AND u.level = 'gpu' HAVING count(*) > 0
) shared ON true
LEFT JOIN LATERAL (
    SELECT count(*)::integer AS number, coalesce(sum(gpu.seconds), 0) AS seconds
    FROM (
        SELECT (SELECT sum(extract(epoch FROM upper(part) - lower(part)))
                FROM unnest(tstzmultirange(tstzrange(j.started_at, coalesce(j.ended_at, now())))
                            - (tstzmultirange(tstzrange(CASE WHEN bool_or(a.extension_id IS NULL)
                                   THEN lower(range_agg(a.during)) END, NULL)) - range_agg(a.during))) part) AS seconds
        FROM oar_all.assigned_resources a JOIN public.resources r USING (resource_id)
        WHERE a.month = j.month AND a.job_id = j.job_id AND r.type = 'default' AND to_jsonb(r) ->> 'gpu' IS NOT NULL
        GROUP BY to_jsonb(r) ->> 'gpu'
    ) gpu
) gpus ON j.started_at < coalesce(j.ended_at, now()) AND coalesce(shared.part > 0, EXISTS (
    SELECT FROM oar_all.resource_groups g JOIN oar_all.resource_descriptions d USING (month, group_id)
    WHERE g.month = j.month AND g.moldable_id = j.moldable_id AND d.level = 'gpu'))
CROSS JOIN LATERAL (SELECT j.suspended_time + coalesce(now() - j.suspended_at, interval '0') AS still) stood;
COMMENT ON VIEW oar_report.jobs IS 'every job, finished or not, with its wait, its run and what it holds or held';
COMMENT ON COLUMN oar_report.jobs.job_id IS 'the job''s number';
COMMENT ON COLUMN oar_report.jobs.array_id IS 'number of the first job of its array; its own number for a single job';
COMMENT ON COLUMN oar_report.jobs.array_index IS 'place in the array, from 1';
COMMENT ON COLUMN oar_report.jobs.job_name IS 'name given by the user, empty if none';
COMMENT ON COLUMN oar_report.jobs.user_name IS 'who submitted it';
COMMENT ON COLUMN oar_report.jobs.project IS 'project that it counts for';
COMMENT ON COLUMN oar_report.jobs.queue_name IS 'queue that it is in';
COMMENT ON COLUMN oar_report.jobs.kind IS 'PASSIVE (a script) or INTERACTIVE';
COMMENT ON COLUMN oar_report.jobs.types IS 'the words of oarsub -t';
COMMENT ON COLUMN oar_report.jobs.state IS 'present state';
COMMENT ON COLUMN oar_report.jobs.message IS 'last remark of the system on it';
COMMENT ON COLUMN oar_report.jobs.exit_status IS 'wait status of its command';
COMMENT ON COLUMN oar_report.jobs.attempt IS 'how often it was launched';
COMMENT ON COLUMN oar_report.jobs.resubmit_of IS 'the job that it repeats';
COMMENT ON COLUMN oar_report.jobs.reservation_start IS 'start asked for by an advance reservation';
COMMENT ON COLUMN oar_report.jobs.submitted_at IS 'when it was submitted';
COMMENT ON COLUMN oar_report.jobs.started_at IS 'when its command started';
COMMENT ON COLUMN oar_report.jobs.ended_at IS 'when it reached Terminated or Error';
COMMENT ON COLUMN oar_report.jobs.wait_seconds IS 'from submission to start; to its end if it never started; to now if it waits';
COMMENT ON COLUMN oar_report.jobs.run_seconds IS 'from start to end, or to now; NULL if it never started';
COMMENT ON COLUMN oar_report.jobs.walltime_seconds IS 'walltime of the alternative that was chosen, NULL before';
COMMENT ON COLUMN oar_report.jobs.nodes IS 'nodes that it holds or held';
COMMENT ON COLUMN oar_report.jobs.resources IS 'resources of type default that it holds or held';
COMMENT ON COLUMN oar_report.jobs.cores IS 'distinct cores among them; a resource without a core counts as one';
COMMENT ON COLUMN oar_report.jobs.core_hours IS 'hours for which it had each core and ran, without the time for which it was suspended';
COMMENT ON COLUMN oar_report.jobs.asked_core_hours IS 'cores times hours of walltime; of those that came while it ran, hours for which it had them';
COMMENT ON COLUMN oar_report.jobs.suspended_seconds IS 'how long it was suspended, in all';
COMMENT ON COLUMN oar_report.jobs.gpus IS 'GPUs that it has or had, NULL of a job that did not ask for GPUs or did not start';
COMMENT ON COLUMN oar_report.jobs.gpu_hours IS 'hours for which it had each of them and ran, times its share';
