-- The accounting says so (oarpy.counting) when it adds jobs to the day on which they ended.
CREATE OR REPLACE FUNCTION days_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT may_rewrite_history(TG_RELID) THEN
        RAISE EXCEPTION 'job_days tells what happened: the accounting alone changes it, nobody takes from it'
            USING ERRCODE = 'check_violation',
                HINT = 'oaraccounting --reinitialize counts all jobs again; oarpy db check --accounting compares';
    END IF;
    RETURN coalesce(NEW, OLD);
END $$;
COMMENT ON FUNCTION days_stay IS 'keep the sums of days from being changed by others than the accounting';

CREATE OR REPLACE TRIGGER days_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON job_days FOR EACH STATEMENT
    WHEN (current_setting('oarpy.counting', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION days_stay();
