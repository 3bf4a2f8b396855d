-- What the launcher writes about a channel matters when the channel opens or closes, not when its message changes.
CREATE OR REPLACE FUNCTION node_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT network_address, transport, host, port, channel FROM changed
               EXCEPT SELECT network_address, transport, host, port, channel FROM before) THEN
        PERFORM announce(ARRAY['nodes changed']);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER announced AFTER UPDATE ON nodes
    REFERENCING OLD TABLE AS before NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION node_moved();
