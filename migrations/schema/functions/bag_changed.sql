-- Whoever changes a bag has a pass look at it, a pass that changes a promise included.
CREATE OR REPLACE FUNCTION bag_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM changed) THEN
        PERFORM announce(ARRAY['job changed']);
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION bag_changed IS 'tell passes that somebody changed a bag';

CREATE OR REPLACE TRIGGER bag_changed AFTER UPDATE ON bags
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION bag_changed();
