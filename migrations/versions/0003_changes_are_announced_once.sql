-- A statement that changes no row is no change: it is not announced. Announcing it woke modules whose own statements,
-- finding nothing to do, woke them again.

-- All triggers on these functions name the rows concerned "changed".
CREATE OR REPLACE FUNCTION platform_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM changed) THEN
        UPDATE site SET platform_version = platform_version + 1;
        PERFORM announce(ARRAY['platform changed']);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION announced() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM changed) THEN
        PERFORM announce(ARRAY[TG_ARGV[0]]);
    END IF;
    RETURN NULL;
END $$;

DROP TRIGGER platform_changed ON resources;
CREATE TRIGGER platform_grown AFTER INSERT ON resources
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION platform_changed();
CREATE TRIGGER platform_changed AFTER UPDATE ON resources
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION platform_changed();
CREATE TRIGGER platform_shrunk AFTER DELETE ON resources
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION platform_changed();

DROP TRIGGER platform_changed ON resource_properties;
CREATE TRIGGER platform_grown AFTER INSERT ON resource_properties
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION platform_changed();
CREATE TRIGGER platform_changed AFTER UPDATE ON resource_properties
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION platform_changed();
CREATE TRIGGER platform_shrunk AFTER DELETE ON resource_properties
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION platform_changed();

DROP TRIGGER announced ON queues;
CREATE TRIGGER announced_new AFTER INSERT ON queues
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('queues changed');
CREATE TRIGGER announced AFTER UPDATE ON queues
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('queues changed');
CREATE TRIGGER announced_gone AFTER DELETE ON queues
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('queues changed');

DROP TRIGGER announced ON quotas;
CREATE TRIGGER announced_new AFTER INSERT ON quotas
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');
CREATE TRIGGER announced AFTER UPDATE ON quotas
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');
CREATE TRIGGER announced_gone AFTER DELETE ON quotas
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');

DROP TRIGGER announced ON kill_requests;
CREATE TRIGGER announced_new AFTER INSERT ON kill_requests
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('kill requested');
DROP TRIGGER announced ON signal_requests;
CREATE TRIGGER announced_new AFTER INSERT ON signal_requests
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('signal requested');

-- what the launcher writes about a channel matters when the channel opens or closes, not when its message changes
CREATE FUNCTION node_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT network_address, transport, host, port, channel FROM changed
               EXCEPT SELECT network_address, transport, host, port, channel FROM before) THEN
        PERFORM announce(ARRAY['nodes changed']);
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER announced ON nodes;
CREATE TRIGGER announced_new AFTER INSERT ON nodes
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('nodes changed');
CREATE TRIGGER announced AFTER UPDATE ON nodes
    REFERENCING OLD TABLE AS before NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION node_moved();
CREATE TRIGGER announced_gone AFTER DELETE ON nodes
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('nodes changed');
