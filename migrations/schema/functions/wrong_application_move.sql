-- The moves of applications are those of application_moves, whoever makes them; each begins Submitted. One that comes
-- back from the past is as it was.
CREATE OR REPLACE FUNCTION wrong_application_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF may_rewrite_history(TG_RELID) THEN
        RETURN NEW;
    ELSIF TG_OP = 'INSERT' THEN
        RAISE EXCEPTION 'application % begins as Submitted, not as %', NEW.job_id, NEW.state
            USING ERRCODE = 'check_violation', HINT = 'application_moves lists the allowed moves';
    ELSIF NOT EXISTS (SELECT FROM application_moves WHERE from_state = OLD.state AND to_state = NEW.state) THEN
        RAISE EXCEPTION 'application % cannot go from % to %', OLD.job_id, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', HINT = 'application_moves lists the allowed moves';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION wrong_application_move IS 'refuse moves of applications that are not allowed';

CREATE OR REPLACE TRIGGER application_moved BEFORE UPDATE ON applications FOR EACH ROW
    WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION wrong_application_move();
CREATE OR REPLACE TRIGGER application_begun BEFORE INSERT ON applications FOR EACH ROW
    WHEN (NEW.state <> 'Submitted') EXECUTE FUNCTION wrong_application_move();

-- A pass knows what it writes of applications; what anybody else changes is announced to passes.
CREATE OR REPLACE TRIGGER announced AFTER UPDATE ON applications
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT
    WHEN (current_setting('application_name') <> 'oarpy metascheduler')
    EXECUTE FUNCTION announced('application changed');
CREATE OR REPLACE TRIGGER announced_gone AFTER DELETE ON ghosts
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT
    WHEN (current_setting('application_name') <> 'oarpy metascheduler')
    EXECUTE FUNCTION announced('application changed');

-- Those in line are told when links between clusters change.
CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON cluster_links
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('links changed');
CREATE OR REPLACE TRIGGER announced AFTER UPDATE ON cluster_links
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('links changed');
CREATE OR REPLACE TRIGGER announced_gone AFTER DELETE ON cluster_links
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('links changed');

CREATE OR REPLACE TRIGGER rows_stay BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON application_states
    FOR EACH STATEMENT WHEN (current_setting('oarpy.migrating', true) IS DISTINCT FROM 'yes')
    EXECUTE FUNCTION rows_stay();
CREATE OR REPLACE TRIGGER rows_stay BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON application_moves
    FOR EACH STATEMENT WHEN (current_setting('oarpy.migrating', true) IS DISTINCT FROM 'yes')
    EXECUTE FUNCTION rows_stay();
