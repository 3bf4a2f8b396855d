CREATE OR REPLACE VIEW oar_report.mapping_accuracy AS
SELECT program, node_types, count(*) AS jobs, count(*) FILTER (WHERE ran > seconds) AS outlived,
       avg(seconds)::double precision AS mean_predicted_seconds, avg(ran)::double precision AS mean_run_seconds,
       avg(abs(seconds - ran) / nullif(ran, 0))::double precision AS mean_error
FROM (
    SELECT m.program, m.seconds,
           (SELECT string_agg(kind, '+' ORDER BY kind) FROM jsonb_object_keys(m.node_types) AS kind) AS node_types,
           greatest(extract(epoch FROM j.ended_at - j.started_at - j.suspended_time), 0)::double precision AS ran
    FROM oar_all.mapped_jobs m JOIN oar_all.jobs j ON j.month = m.month AND j.job_id = m.job_id
    WHERE m.assigned IS NOT NULL AND j.state = 'Terminated' AND j.started_at IS NOT NULL
) ended
GROUP BY program, node_types;
COMMENT ON VIEW oar_report.mapping_accuracy IS 'how near run times predicted from rates were to real ones, by program and types of nodes';
COMMENT ON COLUMN oar_report.mapping_accuracy.program IS 'the program';
COMMENT ON COLUMN oar_report.mapping_accuracy.node_types IS 'the types of the nodes that its jobs had, joined by +';
COMMENT ON COLUMN oar_report.mapping_accuracy.jobs IS 'jobs that ran with a map, and are Terminated';
COMMENT ON COLUMN oar_report.mapping_accuracy.outlived IS 'those of them that ran longer than was predicted';
COMMENT ON COLUMN oar_report.mapping_accuracy.mean_predicted_seconds IS 'mean of the predictions';
COMMENT ON COLUMN oar_report.mapping_accuracy.mean_run_seconds IS 'mean of the real run times';
COMMENT ON COLUMN oar_report.mapping_accuracy.mean_error IS 'mean of the difference / the real run time';
