-- New jobs get their first row of the state log, and are announced by state. One that is over may only come back from
-- the past, where its history is; no other gets the number of a job of the past.
CREATE OR REPLACE FUNCTION jobs_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT min(job_id) FROM new_jobs) <= (SELECT max(last_job) FROM past_months) THEN
        IF NOT EXISTS (SELECT FROM new_jobs n LEFT JOIN oar_past.jobs p USING (job_id)
                       WHERE p.job_id IS NULL OR n.state <> p.state) THEN
            RETURN NULL;
        END IF;
        RAISE EXCEPTION 'job % has a number that was given before', (SELECT min(job_id) FROM new_jobs)
            USING ERRCODE = 'unique_violation', HINT = 'leave the number out';
    END IF;
    IF EXISTS (SELECT FROM new_jobs WHERE state NOT IN ('Hold', 'Waiting')) THEN
        RAISE EXCEPTION 'a job is born Hold or Waiting, not %',
            (SELECT state FROM new_jobs WHERE state NOT IN ('Hold', 'Waiting') LIMIT 1)
            USING ERRCODE = 'check_violation';
    END IF;
    INSERT INTO job_state_logs (job_id, state, during)
        SELECT job_id, state, tstzrange(clock_timestamp(), NULL) FROM new_jobs;
    PERFORM announce(array_agg(DISTINCT 'job ' || state)) FROM new_jobs;
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER jobs_inserted AFTER INSERT ON jobs
    REFERENCING NEW TABLE AS new_jobs FOR EACH STATEMENT EXECUTE FUNCTION jobs_inserted();
