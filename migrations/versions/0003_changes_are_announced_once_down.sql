-- The triggers as they were: every statement is announced, whether it changed a row or not.
DROP TRIGGER platform_grown ON resources;
DROP TRIGGER platform_changed ON resources;
DROP TRIGGER platform_shrunk ON resources;
DROP TRIGGER platform_grown ON resource_properties;
DROP TRIGGER platform_changed ON resource_properties;
DROP TRIGGER platform_shrunk ON resource_properties;
DROP TRIGGER announced_new ON queues;
DROP TRIGGER announced ON queues;
DROP TRIGGER announced_gone ON queues;
DROP TRIGGER announced_new ON quotas;
DROP TRIGGER announced ON quotas;
DROP TRIGGER announced_gone ON quotas;
DROP TRIGGER announced_new ON kill_requests;
DROP TRIGGER announced_new ON signal_requests;
DROP TRIGGER announced_new ON nodes;
DROP TRIGGER announced ON nodes;
DROP TRIGGER announced_gone ON nodes;
DROP FUNCTION node_moved;

CREATE OR REPLACE FUNCTION platform_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE site SET platform_version = platform_version + 1;
    PERFORM announce(ARRAY['platform changed']);
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION announced() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM announce(ARRAY[TG_ARGV[0]]);
    RETURN NULL;
END $$;
CREATE TRIGGER platform_changed AFTER INSERT OR UPDATE OR DELETE ON resources
    FOR EACH STATEMENT EXECUTE FUNCTION platform_changed();
CREATE TRIGGER platform_changed AFTER INSERT OR UPDATE OR DELETE ON resource_properties
    FOR EACH STATEMENT EXECUTE FUNCTION platform_changed();
CREATE TRIGGER announced AFTER INSERT OR UPDATE OR DELETE ON queues
    FOR EACH STATEMENT EXECUTE FUNCTION announced('queues changed');
CREATE TRIGGER announced AFTER INSERT OR UPDATE OR DELETE ON quotas
    FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');
CREATE TRIGGER announced AFTER INSERT ON kill_requests
    FOR EACH STATEMENT EXECUTE FUNCTION announced('kill requested');
CREATE TRIGGER announced AFTER INSERT ON signal_requests
    FOR EACH STATEMENT EXECUTE FUNCTION announced('signal requested');
CREATE TRIGGER announced AFTER INSERT OR UPDATE OF transport, host, port, channel OR DELETE ON nodes
    FOR EACH STATEMENT EXECUTE FUNCTION announced('nodes changed');
