-- What is held changes all the time and is no change of the platform.
CREATE OR REPLACE FUNCTION capacities_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE site SET platform_version = (platform_version + 1) % 9007199254740992;
    PERFORM announce(ARRAY['platform changed']);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION capacities_changed IS 'announce that there is more, or less, to be divided';

CREATE OR REPLACE TRIGGER capacities_changed
    AFTER INSERT OR DELETE OR UPDATE OF consumable, block, capacity ON consumable_capacities
    FOR EACH STATEMENT EXECUTE FUNCTION capacities_changed();
CREATE OR REPLACE TRIGGER capacities_emptied AFTER TRUNCATE ON consumable_capacities
    FOR EACH STATEMENT EXECUTE FUNCTION capacities_changed();
CREATE OR REPLACE TRIGGER capacities_emptied AFTER TRUNCATE ON consumables
    FOR EACH STATEMENT EXECUTE FUNCTION capacities_changed();
CREATE OR REPLACE TRIGGER consumables_changed AFTER INSERT OR UPDATE OR DELETE ON consumables
    FOR EACH STATEMENT EXECUTE FUNCTION capacities_changed();
CREATE OR REPLACE TRIGGER platform_emptied AFTER TRUNCATE ON resources
    FOR EACH STATEMENT EXECUTE FUNCTION capacities_changed();
CREATE OR REPLACE TRIGGER platform_emptied AFTER TRUNCATE ON resource_properties
    FOR EACH STATEMENT EXECUTE FUNCTION capacities_changed();
