-- Whoever moves the job: how long it stood still is known.
CREATE OR REPLACE FUNCTION job_paused() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state IN ('Suspended', 'Resuming') THEN
        NEW.suspended_at := coalesce(OLD.suspended_at, clock_timestamp());
    ELSE
        NEW.suspended_time := OLD.suspended_time + greatest(clock_timestamp() - OLD.suspended_at, interval '0');
        NEW.suspended_at := NULL;
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION job_paused IS 'measure the time for which a job is suspended';

CREATE OR REPLACE TRIGGER job_paused BEFORE UPDATE OF state ON jobs FOR EACH ROW
    WHEN (NEW.state <> OLD.state AND (NEW.state IN ('Suspended', 'Resuming') OR OLD.state IN ('Suspended', 'Resuming')))
    EXECUTE FUNCTION job_paused();
