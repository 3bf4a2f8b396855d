-- The moves of extensions are those of extension_moves, whoever makes them; each begins Waiting. One that comes back
-- from the past is as it was.
CREATE OR REPLACE FUNCTION wrong_extension_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF may_rewrite_history(TG_RELID) THEN
        RETURN NEW;
    ELSIF TG_OP = 'INSERT' THEN
        RAISE EXCEPTION 'extension % begins as Waiting, not as %', NEW.extension_id, NEW.state
            USING ERRCODE = 'check_violation', HINT = 'extension_moves lists the allowed moves';
    ELSIF NOT EXISTS (SELECT FROM extension_moves WHERE from_state = OLD.state AND to_state = NEW.state) THEN
        RAISE EXCEPTION 'extension % of job % cannot go from % to %', OLD.extension_id, OLD.job_id, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', HINT = 'extension_moves lists the allowed moves';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION wrong_extension_move IS 'refuse moves of extensions that are not allowed';

CREATE OR REPLACE TRIGGER extension_moved BEFORE UPDATE ON extensions FOR EACH ROW
    WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION wrong_extension_move();
CREATE OR REPLACE TRIGGER extension_begun BEFORE INSERT ON extensions FOR EACH ROW
    WHEN (NEW.state <> 'Waiting') EXECUTE FUNCTION wrong_extension_move();

-- A pass knows what it writes of extensions; what anybody else changes is announced to passes.
CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON extensions
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('extension changed');
CREATE OR REPLACE TRIGGER announced AFTER UPDATE ON extensions
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT
    WHEN (current_setting('application_name') <> 'oarpy metascheduler')
    EXECUTE FUNCTION announced('extension changed');
CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON resizes
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('resize asked');

CREATE OR REPLACE TRIGGER rows_stay BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON extension_moves
    FOR EACH STATEMENT WHEN (current_setting('oarpy.migrating', true) IS DISTINCT FROM 'yes')
    EXECUTE FUNCTION rows_stay();
