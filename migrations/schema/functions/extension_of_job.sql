-- What comes with an extension comes while it is granted, to the job that it is of. No foreign key: every start would
-- pay for it.
CREATE OR REPLACE FUNCTION extension_of_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT may_rewrite_history(TG_RELID) AND NOT EXISTS (
        SELECT FROM extensions e
        WHERE e.extension_id = NEW.extension_id AND e.job_id = NEW.job_id AND e.state = 'Granting') THEN
        RAISE EXCEPTION 'job % gets resource % with extension %, which is none of its that is being granted',
            NEW.job_id, NEW.resource_id, NEW.extension_id
            USING ERRCODE = 'check_violation', HINT = 'oarresize asks for hosts';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION extension_of_job IS 'let a job grow by its own extensions alone';

CREATE OR REPLACE TRIGGER extension_of_job BEFORE INSERT ON assigned_resources FOR EACH ROW
    WHEN (NEW.extension_id IS NOT NULL) EXECUTE FUNCTION extension_of_job();
CREATE OR REPLACE TRIGGER extension_of_job_changed BEFORE UPDATE ON assigned_resources FOR EACH ROW
    WHEN (NEW.extension_id IS DISTINCT FROM OLD.extension_id AND NEW.extension_id IS NOT NULL)
    EXECUTE FUNCTION extension_of_job();
