-- New jobs get their first row of the state log, and are announced by state.
CREATE OR REPLACE FUNCTION jobs_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
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
