CREATE OR REPLACE FUNCTION expected_end(job jobs) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT job.started_at + job.walltime + job.suspended_time + coalesce(now() - job.suspended_at, interval '0')
$$;
COMMENT ON FUNCTION expected_end IS 'when the walltime of a job is over, were it resumed now if it is suspended';
