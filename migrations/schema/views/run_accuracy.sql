CREATE OR REPLACE VIEW oar_report.run_accuracy AS
SELECT user_name, predictor, count(*) AS jobs, count(*) FILTER (WHERE ran > seconds) AS outlived,
       avg(seconds)::double precision AS mean_predicted_seconds, avg(ran)::double precision AS mean_run_seconds,
       avg(walltime)::double precision AS mean_walltime_seconds,
       avg(least(ran, seconds) / nullif(greatest(ran, seconds), 0))::double precision AS mean_accuracy
FROM (
    SELECT j.user_name, p.predictor, p.seconds, extract(epoch FROM j.walltime)::double precision AS walltime,
           greatest(extract(epoch FROM j.ended_at - j.started_at - j.suspended_time), 0)::double precision AS ran
    FROM oar_all.run_predictions p JOIN oar_all.jobs j ON j.month = p.month AND j.job_id = p.job_id
    WHERE j.started_at IS NOT NULL AND j.ended_at IS NOT NULL
) ended
GROUP BY user_name, predictor;
COMMENT ON VIEW oar_report.run_accuracy IS 'how near predicted run times were to those of ended jobs, by user and predictor';
COMMENT ON COLUMN oar_report.run_accuracy.user_name IS 'whose jobs';
COMMENT ON COLUMN oar_report.run_accuracy.predictor IS 'by what their run times were predicted';
COMMENT ON COLUMN oar_report.run_accuracy.jobs IS 'jobs that were started by a prediction, and have ended';
COMMENT ON COLUMN oar_report.run_accuracy.outlived IS 'those of them that ran longer than was predicted';
COMMENT ON COLUMN oar_report.run_accuracy.mean_predicted_seconds IS 'mean of the predictions';
COMMENT ON COLUMN oar_report.run_accuracy.mean_run_seconds IS 'mean of the real run times';
COMMENT ON COLUMN oar_report.run_accuracy.mean_walltime_seconds IS 'mean of the walltimes';
COMMENT ON COLUMN oar_report.run_accuracy.mean_accuracy IS 'mean of the shorter of prediction and run time / the longer, 0 to 1';
