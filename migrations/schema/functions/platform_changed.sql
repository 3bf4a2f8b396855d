-- All triggers on these functions name the rows concerned "changed".
CREATE OR REPLACE FUNCTION platform_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM changed) THEN
        UPDATE site SET platform_version = (platform_version + 1) % 9007199254740992;
        PERFORM announce(ARRAY['platform changed']);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER platform_grown AFTER INSERT ON resources
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION platform_changed();
CREATE OR REPLACE TRIGGER platform_changed AFTER UPDATE ON resources
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION platform_changed();
CREATE OR REPLACE TRIGGER platform_shrunk AFTER DELETE ON resources
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION platform_changed();
CREATE OR REPLACE TRIGGER platform_grown AFTER INSERT ON resource_properties
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION platform_changed();
CREATE OR REPLACE TRIGGER platform_changed AFTER UPDATE ON resource_properties
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION platform_changed();
CREATE OR REPLACE TRIGGER platform_shrunk AFTER DELETE ON resource_properties
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION platform_changed();
CREATE OR REPLACE TRIGGER platform_grown AFTER INSERT ON maintenance_windows
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION platform_changed();
CREATE OR REPLACE TRIGGER platform_changed AFTER UPDATE ON maintenance_windows
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION platform_changed();
CREATE OR REPLACE TRIGGER platform_shrunk AFTER DELETE ON maintenance_windows
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION platform_changed();
CREATE OR REPLACE TRIGGER platform_grown AFTER INSERT ON maintenance_nodes
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION platform_changed();
CREATE OR REPLACE TRIGGER platform_changed AFTER UPDATE ON maintenance_nodes
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION platform_changed();
CREATE OR REPLACE TRIGGER platform_shrunk AFTER DELETE ON maintenance_nodes
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION platform_changed();
