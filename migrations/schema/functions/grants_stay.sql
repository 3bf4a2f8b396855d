CREATE OR REPLACE FUNCTION grants_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT may_rewrite_history(TG_RELID)
       AND EXISTS (SELECT FROM jobs WHERE job_id = OLD.job_id AND ended_at IS NOT NULL) THEN
        RAISE EXCEPTION 'job % is over: what it was granted stays', OLD.job_id
            USING ERRCODE = 'check_violation',
                HINT = 'the owner of the table may change it, in a transaction with SET LOCAL oarpy.rewrite_history = on';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION grants_stay IS 'keep what ended jobs were granted beyond their walltime';

CREATE OR REPLACE TRIGGER grants_stay BEFORE UPDATE OF job_id, requested_at, requested_by, granted,
        granted_with_force, granted_with_whole, granted_with_delay_next_jobs ON walltime_changes
    FOR EACH ROW EXECUTE FUNCTION grants_stay();
