-- Only jobs that are over may be removed: a live one has resources, and processes on nodes.
CREATE OR REPLACE FUNCTION final_jobs_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'job % is live (%) and cannot be removed', OLD.job_id, OLD.state
        USING ERRCODE = 'check_violation', HINT = 'delete it with oardel first';
END $$;

CREATE OR REPLACE TRIGGER live_jobs_stay BEFORE DELETE ON jobs FOR EACH ROW
    WHEN (OLD.state NOT IN ('Terminated', 'Error')) EXECUTE FUNCTION final_jobs_stay();
