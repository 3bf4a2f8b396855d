-- A job that asks for an exclusive level holds every block of which it has some resource, and nobody else who asks for it.
CREATE OR REPLACE FUNCTION blocks_held() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE holders bigint[];
BEGIN
    IF NOT EXISTS (SELECT FROM exclusive_levels) THEN
        RETURN NULL;
    END IF;
    SELECT array_agg(DISTINCT job_id) INTO holders FROM given;
    PERFORM hold_blocks(holders);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION blocks_held IS 'have jobs hold blocks of exclusive levels as they hold resources';

CREATE OR REPLACE TRIGGER blocks_taken AFTER INSERT ON assigned_resources
    REFERENCING NEW TABLE AS given FOR EACH STATEMENT EXECUTE FUNCTION blocks_held();
CREATE OR REPLACE TRIGGER blocks_changed AFTER UPDATE ON assigned_resources
    REFERENCING NEW TABLE AS given FOR EACH STATEMENT EXECUTE FUNCTION blocks_held();
CREATE OR REPLACE TRIGGER blocks_returned AFTER DELETE ON assigned_resources
    REFERENCING OLD TABLE AS given FOR EACH STATEMENT EXECUTE FUNCTION blocks_held();
