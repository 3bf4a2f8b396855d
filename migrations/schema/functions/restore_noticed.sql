-- Whoever inserts jobs looks first whether this is still the database that gave the ids before.
CREATE OR REPLACE FUNCTION restore_noticed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM notice_restore();
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER restore_noticed BEFORE INSERT ON jobs
    FOR EACH STATEMENT EXECUTE FUNCTION restore_noticed();
