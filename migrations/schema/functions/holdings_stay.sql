-- What is held now has triggers that look at each row; to empty a table fires none of them.
CREATE OR REPLACE FUNCTION holdings_stay() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE job bigint;
BEGIN
    EXECUTE format('SELECT job_id FROM %s WHERE upper(during) IS NULL OR upper(during) > now() LIMIT 1', TG_RELID::regclass)
        INTO job;
    IF job IS NOT NULL THEN
        RAISE EXCEPTION '% cannot be emptied: job % holds something', TG_TABLE_NAME, job
            USING ERRCODE = 'check_violation', HINT = 'oardel ends jobs';
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION holdings_stay IS 'what jobs hold is not emptied by TRUNCATE';

CREATE OR REPLACE TRIGGER holdings_stay BEFORE TRUNCATE ON assigned_resources EXECUTE FUNCTION holdings_stay();
CREATE OR REPLACE TRIGGER holdings_stay BEFORE TRUNCATE ON assigned_amounts EXECUTE FUNCTION holdings_stay();
CREATE OR REPLACE TRIGGER holdings_stay BEFORE TRUNCATE ON reserved_resources EXECUTE FUNCTION holdings_stay();
