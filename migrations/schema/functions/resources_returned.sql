CREATE OR REPLACE FUNCTION resources_returned() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM announce(ARRAY['resources returned']);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION resources_returned IS 'tell that a suspended job gave resources back, or has them again';

CREATE OR REPLACE TRIGGER resources_returned AFTER UPDATE OF suspended ON assigned_resources FOR EACH ROW
    WHEN (NEW.suspended <> OLD.suspended) EXECUTE FUNCTION resources_returned();
