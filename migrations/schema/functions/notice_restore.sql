CREATE OR REPLACE FUNCTION notice_restore() RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    latest generations;
BEGIN
    SELECT * INTO latest FROM generations ORDER BY generation DESC LIMIT 1;
    IF latest.copy = database_copy() THEN
        RETURN latest.generation;
    END IF;
    RETURN begin_generation('the database is another copy than the one that gave ids before');
END $$;
COMMENT ON FUNCTION notice_restore IS 'return the generation of the database; begin one when it was restored';
