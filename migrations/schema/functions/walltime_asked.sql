CREATE OR REPLACE FUNCTION walltime_asked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM changed WHERE pending <> interval '0') THEN
        PERFORM announce(ARRAY['walltime asked']);
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION walltime_asked IS 'tell that a walltime change is pending';

CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON walltime_changes
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION walltime_asked();
CREATE OR REPLACE TRIGGER announced AFTER UPDATE ON walltime_changes
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION walltime_asked();
