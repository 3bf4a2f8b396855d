CREATE OR REPLACE VIEW oar_report.efficiency AS
SELECT j.job_id, j.array_id, j.job_name, j.user_name, j.project, j.queue_name, j.state, j.started_at, j.ended_at,
       held.nodes, held.cores, ran.seconds AS run_seconds, extract(epoch FROM j.walltime)::double precision AS walltime_seconds,
       had.core_seconds, j.cpu_seconds, j.cpu_seconds / nullif(had.core_seconds, 0) AS cpu_efficiency,
       j.memory_peak AS memory_peak_bytes, asked.bytes AS memory_asked_bytes,
       j.memory_peak / nullif(asked.bytes, 0)::double precision AS memory_efficiency,
       u.gpus, u.seconds AS gpu_seconds, u.busy_seconds AS gpu_busy_seconds,
       u.busy_seconds / nullif(u.seconds, 0) AS gpu_efficiency,
       u.memory_peak AS gpu_memory_peak_bytes, u.memory_total AS gpu_memory_bytes
FROM oar_all.jobs j
CROSS JOIN LATERAL (
    SELECT count(DISTINCT r.network_address)::integer AS nodes,
           (count(DISTINCT r.core) + count(*) FILTER (WHERE r.core IS NULL))::integer AS cores
    FROM oar_all.assigned_resources a JOIN public.resources r USING (resource_id)
    WHERE a.month = j.month AND a.job_id = j.job_id AND r.type = 'default'
) held
CROSS JOIN LATERAL (
    SELECT extract(epoch FROM greatest(j.ended_at - j.started_at - j.suspended_time, interval '0'))::double precision
           AS seconds
) ran
-- A job that was resized had some of its cores for a part of its run.
LEFT JOIN LATERAL (
    SELECT sum(extract(epoch FROM upper(part) - lower(part))) AS seconds
    FROM (
        SELECT range_agg(a.during) * tstzmultirange(tstzrange(j.started_at, j.ended_at)) AS during
        FROM oar_all.assigned_resources a JOIN public.resources r USING (resource_id)
        WHERE a.month = j.month AND a.job_id = j.job_id AND r.type = 'default'
        GROUP BY r.core, CASE WHEN r.core IS NULL THEN r.resource_id END
    ) core CROSS JOIN LATERAL unnest(core.during) part
) resized ON j.started_at < j.ended_at
    AND EXISTS (SELECT FROM oar_all.resizes z WHERE z.month = j.month AND z.job_id = j.job_id)
CROSS JOIN LATERAL (
    SELECT coalesce(resized.seconds::double precision, held.cores * ran.seconds) AS core_seconds
) had
CROSS JOIN LATERAL (
    SELECT max(m.amount)::bigint AS bytes FROM oar_all.assigned_amounts m
    WHERE m.month = j.month AND m.job_id = j.job_id AND m.consumable = 'memory'
) asked
LEFT JOIN oar_all.gpu_uses u ON u.month = j.month AND u.job_id = j.job_id
WHERE j.cpu_seconds IS NOT NULL AND j.started_at IS NOT NULL AND j.ended_at IS NOT NULL;
COMMENT ON VIEW oar_report.efficiency IS
    'finished jobs whose use was measured on their nodes: CPU time against cores, memory against what was asked, GPUs';
COMMENT ON COLUMN oar_report.efficiency.job_id IS 'the job''s number';
COMMENT ON COLUMN oar_report.efficiency.array_id IS 'number of the first job of its array; its own number for a single job';
COMMENT ON COLUMN oar_report.efficiency.job_name IS 'name given by the user, empty if none';
COMMENT ON COLUMN oar_report.efficiency.user_name IS 'who submitted it';
COMMENT ON COLUMN oar_report.efficiency.project IS 'project that it counts for';
COMMENT ON COLUMN oar_report.efficiency.queue_name IS 'queue that it was in';
COMMENT ON COLUMN oar_report.efficiency.state IS 'Terminated or Error';
COMMENT ON COLUMN oar_report.efficiency.started_at IS 'when its command started';
COMMENT ON COLUMN oar_report.efficiency.ended_at IS 'when it reached its final state';
COMMENT ON COLUMN oar_report.efficiency.nodes IS 'nodes that it held';
COMMENT ON COLUMN oar_report.efficiency.cores IS 'distinct cores among them; a resource without a core counts as one';
COMMENT ON COLUMN oar_report.efficiency.run_seconds IS 'from start to end, without the time for which it was suspended';
COMMENT ON COLUMN oar_report.efficiency.walltime_seconds IS 'its walltime';
COMMENT ON COLUMN oar_report.efficiency.core_seconds IS 'seconds for which it had each core and ran';
COMMENT ON COLUMN oar_report.efficiency.cpu_seconds IS 'user and system time of its processes, on all its nodes';
COMMENT ON COLUMN oar_report.efficiency.cpu_efficiency IS
    'CPU seconds by core seconds, 1 when every core was busy; NULL when it held none';
COMMENT ON COLUMN oar_report.efficiency.memory_peak_bytes IS
    'the most memory that its processes had on one node, NULL when nobody measured it';
COMMENT ON COLUMN oar_report.efficiency.memory_asked_bytes IS
    'what it held of the consumable memory on one node, NULL without';
COMMENT ON COLUMN oar_report.efficiency.memory_efficiency IS 'memory peak by memory asked, NULL without';
COMMENT ON COLUMN oar_report.efficiency.gpus IS 'GPUs that it had when they were looked at last, NULL when nobody did';
COMMENT ON COLUMN oar_report.efficiency.gpu_seconds IS
    'seconds for which its GPUs were looked at, each for itself';
COMMENT ON COLUMN oar_report.efficiency.gpu_busy_seconds IS 'seconds for which they computed';
COMMENT ON COLUMN oar_report.efficiency.gpu_efficiency IS 'the one by the other, 1 when every GPU was busy';
COMMENT ON COLUMN oar_report.efficiency.gpu_memory_peak_bytes IS 'the most memory in use on one of its GPUs';
COMMENT ON COLUMN oar_report.efficiency.gpu_memory_bytes IS 'memory that such a GPU has';
