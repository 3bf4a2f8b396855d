-- A job that is over, or waits again, holds nothing; what a suspended job gives back is for the launcher.
CREATE OR REPLACE FUNCTION amounts_released() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE moment timestamptz := clock_timestamp();
BEGIN
    IF EXISTS (SELECT FROM consumables) THEN
        UPDATE assigned_amounts a
            SET during = tstzrange(lower(a.during), greatest(moment, lower(a.during) + interval '1 microsecond'))
            FROM new_jobs n
            WHERE n.state IN ('Terminated', 'Error') AND a.job_id = n.job_id AND upper_inf(a.during);
        DELETE FROM assigned_amounts a USING new_jobs n
            WHERE n.state = 'Waiting' AND a.job_id = n.job_id AND upper_inf(a.during);
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION amounts_released IS 'take back the amounts of jobs that hold nothing any more';

CREATE OR REPLACE TRIGGER jobs_released AFTER UPDATE ON jobs
    REFERENCING NEW TABLE AS new_jobs FOR EACH STATEMENT EXECUTE FUNCTION amounts_released();
