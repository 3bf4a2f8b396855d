-- A clock of a node tells when a job ended, this one how long it stood still: ends are not looked at, and a minute more
-- is none.
CREATE OR REPLACE FUNCTION pause_fits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.suspended_time > coalesce(clock_timestamp() - NEW.started_at, interval '0') + interval '1 minute' THEN
        RAISE EXCEPTION 'job % cannot have stood still for %: it began %', NEW.job_id, NEW.suspended_time,
            coalesce('at ' || NEW.started_at, 'never')
            USING ERRCODE = 'check_violation', HINT = 'oarhold -r and oarresume measure for how long a job stands still';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION pause_fits IS 'a job stood still for no longer than it is since it began';

CREATE OR REPLACE TRIGGER pause_fits BEFORE UPDATE OF suspended_time ON jobs FOR EACH ROW
    WHEN (NEW.suspended_time > OLD.suspended_time) EXECUTE FUNCTION pause_fits();
CREATE OR REPLACE TRIGGER pause_fits_new BEFORE INSERT ON jobs FOR EACH ROW
    WHEN (NEW.suspended_time > interval '0') EXECUTE FUNCTION pause_fits();
