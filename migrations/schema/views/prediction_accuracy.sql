CREATE OR REPLACE VIEW oar_report.prediction_accuracy AS
WITH told AS (
    SELECT date_trunc('day', f.made_at AT TIME ZONE 'UTC')::date AS day, j.queue_name, f.earliest_start IS NOT NULL AS has_interval,
           CASE WHEN j.attempt <= 1 THEN j.started_at END AS started_at, f.earliest_start, f.latest_start, f.planned_start,
           extract(epoch FROM f.latest_start - f.earliest_start) AS width,
           extract(epoch FROM f.planned_start - f.made_at) AS planned,
           extract(epoch FROM CASE WHEN j.attempt <= 1 THEN j.started_at END - f.made_at) AS waited
    FROM oar_all.first_predictions f JOIN oar_all.jobs j ON j.month = f.month AND j.job_id = f.job_id
)
SELECT day, queue_name, count(*) AS jobs, count(*) FILTER (WHERE has_interval) AS told,
       count(started_at) FILTER (WHERE has_interval) AS started,
       count(*) FILTER (WHERE started_at BETWEEN earliest_start AND latest_start) AS inside,
       count(*) FILTER (WHERE started_at < earliest_start) AS earlier,
       count(*) FILTER (WHERE started_at > latest_start) AS later,
       (count(*) FILTER (WHERE started_at BETWEEN earliest_start AND latest_start))::double precision
           / nullif(count(started_at) FILTER (WHERE has_interval), 0) AS coverage,
       count(*) FILTER (WHERE started_at > planned_start) AS after_plan,
       (avg(width) FILTER (WHERE started_at IS NOT NULL))::double precision AS mean_width_seconds,
       (avg(planned) FILTER (WHERE started_at IS NOT NULL AND has_interval))::double precision AS mean_planned_seconds,
       (avg(waited) FILTER (WHERE has_interval))::double precision AS mean_wait_seconds
FROM told GROUP BY day, queue_name;
COMMENT ON VIEW oar_report.prediction_accuracy IS 'how often jobs started in the interval that they were told, by day of the prediction and queue';
COMMENT ON COLUMN oar_report.prediction_accuracy.day IS 'day (UTC) on which a start was first foreseen';
COMMENT ON COLUMN oar_report.prediction_accuracy.queue_name IS 'the queue of the jobs';
COMMENT ON COLUMN oar_report.prediction_accuracy.jobs IS 'jobs that had to wait, and for which a start was foreseen';
COMMENT ON COLUMN oar_report.prediction_accuracy.told IS 'those of them that were told an interval';
COMMENT ON COLUMN oar_report.prediction_accuracy.started IS 'those of these that have started since, at their first attempt';
COMMENT ON COLUMN oar_report.prediction_accuracy.inside IS 'those that started within their interval';
COMMENT ON COLUMN oar_report.prediction_accuracy.earlier IS 'those that started before their interval';
COMMENT ON COLUMN oar_report.prediction_accuracy.later IS 'those that started after it';
COMMENT ON COLUMN oar_report.prediction_accuracy.coverage IS 'inside / started, 0 to 1; it should be near 0.9';
COMMENT ON COLUMN oar_report.prediction_accuracy.after_plan IS 'jobs that started later than their first plan by walltimes, with an interval or not';
COMMENT ON COLUMN oar_report.prediction_accuracy.mean_width_seconds IS 'mean width of the intervals of jobs that have started';
COMMENT ON COLUMN oar_report.prediction_accuracy.mean_planned_seconds IS 'mean wait of the same jobs from the prediction to the planned start';
COMMENT ON COLUMN oar_report.prediction_accuracy.mean_wait_seconds IS 'mean wait of the same jobs from the prediction to the real start';
