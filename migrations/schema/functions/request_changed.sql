-- What a job asks for is part of the job: whoever keeps its row reads both again when it has a new version. What waits
-- for its submission, or goes with the submission, is nobody's yet, or nobody's any more.
CREATE OR REPLACE FUNCTION request_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE touched bigint[];
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        SELECT array_agg(DISTINCT submission_id) INTO touched FROM jobs WHERE state IN ('Hold', 'Waiting');
    ELSIF TG_TABLE_NAME = 'moldable_descriptions' THEN
        SELECT array_agg(DISTINCT submission_id) INTO touched FROM changed;
    ELSIF TG_TABLE_NAME = 'resource_descriptions' THEN
        SELECT array_agg(DISTINCT m.submission_id) INTO touched
            FROM changed JOIN resource_groups USING (group_id) JOIN moldable_descriptions m USING (moldable_id);
    ELSE
        SELECT array_agg(DISTINCT m.submission_id) INTO touched
            FROM changed JOIN moldable_descriptions m USING (moldable_id);
    END IF;
    UPDATE jobs SET submission_id = submission_id
        WHERE submission_id = ANY (touched) AND state IN ('Hold', 'Waiting');
    IF FOUND THEN
        PERFORM announce(ARRAY['job changed']);
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION request_changed IS 'give jobs that wait a new version when their request changes';

-- An alternative or a part of one counts once it has a level, so that only new levels and amounts are looked at.
CREATE OR REPLACE TRIGGER request_was AFTER UPDATE ON moldable_descriptions
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION request_changed();
CREATE OR REPLACE TRIGGER request_is AFTER UPDATE ON moldable_descriptions
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION request_changed();
CREATE OR REPLACE TRIGGER request_shrunk AFTER DELETE ON moldable_descriptions
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION request_changed();
CREATE OR REPLACE TRIGGER request_emptied AFTER TRUNCATE ON moldable_descriptions
    FOR EACH STATEMENT EXECUTE FUNCTION request_changed();

CREATE OR REPLACE TRIGGER request_was AFTER UPDATE ON resource_groups
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION request_changed();
CREATE OR REPLACE TRIGGER request_is AFTER UPDATE ON resource_groups
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION request_changed();
CREATE OR REPLACE TRIGGER request_shrunk AFTER DELETE ON resource_groups
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION request_changed();
CREATE OR REPLACE TRIGGER request_emptied AFTER TRUNCATE ON resource_groups
    FOR EACH STATEMENT EXECUTE FUNCTION request_changed();

CREATE OR REPLACE TRIGGER request_grown AFTER INSERT ON resource_descriptions
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION request_changed();
CREATE OR REPLACE TRIGGER request_was AFTER UPDATE ON resource_descriptions
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION request_changed();
CREATE OR REPLACE TRIGGER request_is AFTER UPDATE ON resource_descriptions
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION request_changed();
CREATE OR REPLACE TRIGGER request_shrunk AFTER DELETE ON resource_descriptions
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION request_changed();
CREATE OR REPLACE TRIGGER request_emptied AFTER TRUNCATE ON resource_descriptions
    FOR EACH STATEMENT EXECUTE FUNCTION request_changed();

CREATE OR REPLACE TRIGGER request_grown AFTER INSERT ON consumption_descriptions
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION request_changed();
CREATE OR REPLACE TRIGGER request_was AFTER UPDATE ON consumption_descriptions
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION request_changed();
CREATE OR REPLACE TRIGGER request_is AFTER UPDATE ON consumption_descriptions
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION request_changed();
CREATE OR REPLACE TRIGGER request_shrunk AFTER DELETE ON consumption_descriptions
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION request_changed();
CREATE OR REPLACE TRIGGER request_emptied AFTER TRUNCATE ON consumption_descriptions
    FOR EACH STATEMENT EXECUTE FUNCTION request_changed();
