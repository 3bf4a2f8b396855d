CREATE OR REPLACE VIEW oar_report.daily_jobs AS
SELECT day, user_name, project, queue_name, jobs, failed AS failed_jobs, started AS started_jobs, wait_seconds,
       longest_wait AS longest_wait_seconds, wait_seconds / nullif(started, 0) AS mean_wait_seconds,
       slowdowns AS bounded_slowdowns, slowdowns / nullif(started, 0) AS mean_bounded_slowdown
FROM public.job_days;
COMMENT ON VIEW oar_report.daily_jobs IS
    'accounted jobs by the day of their end (UTC), user, project and queue: how many, how they waited';
COMMENT ON COLUMN oar_report.daily_jobs.day IS 'the day on which they ended, in UTC';
COMMENT ON COLUMN oar_report.daily_jobs.user_name IS 'the user';
COMMENT ON COLUMN oar_report.daily_jobs.project IS 'the project';
COMMENT ON COLUMN oar_report.daily_jobs.queue_name IS 'the queue';
COMMENT ON COLUMN oar_report.daily_jobs.jobs IS 'how many ended';
COMMENT ON COLUMN oar_report.daily_jobs.failed_jobs IS 'of these in Error, or with another exit status than 0';
COMMENT ON COLUMN oar_report.daily_jobs.started_jobs IS 'of these had started';
COMMENT ON COLUMN oar_report.daily_jobs.wait_seconds IS 'sum of the waits of those that had started';
COMMENT ON COLUMN oar_report.daily_jobs.longest_wait_seconds IS 'the longest of these waits';
COMMENT ON COLUMN oar_report.daily_jobs.mean_wait_seconds IS 'their mean, NULL if none had started';
COMMENT ON COLUMN oar_report.daily_jobs.bounded_slowdowns IS
    'sum of their bounded slowdowns: wait plus run, by run or by 10 seconds if that is more, at least 1';
COMMENT ON COLUMN oar_report.daily_jobs.mean_bounded_slowdown IS 'their mean, NULL if none had started';
