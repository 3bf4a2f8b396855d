-- A job holds a resource from when its row is inserted; what it gave back, or had before, it says by changes of the row.
CREATE OR REPLACE FUNCTION holding_begins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT may_rewrite_history(TG_RELID)
       AND (NEW.suspended OR (SELECT is_live(state) FROM jobs WHERE job_id = NEW.job_id)) THEN
        RAISE EXCEPTION 'job % would not hold resource %, and have a row that says that it did', NEW.job_id,
            NEW.resource_id
            USING ERRCODE = 'check_violation', HINT = 'oarhold -r and oarresume change what a job holds';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION holding_begins IS 'give no live job a past of what it held';

CREATE OR REPLACE TRIGGER holding_begins BEFORE INSERT ON assigned_resources FOR EACH ROW
    WHEN (NEW.suspended OR NOT upper_inf(NEW.during)) EXECUTE FUNCTION holding_begins();
