-- Numbers of transactions that another copy of the database wrote mean nothing here.
CREATE OR REPLACE FUNCTION changes_forgotten() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM changes;
    UPDATE site SET changes_from = '0';
    RETURN NULL;
END $$;
COMMENT ON FUNCTION changes_forgotten IS 'begin the stream of events anew with each generation of the database';

CREATE OR REPLACE TRIGGER changes_forgotten AFTER INSERT ON generations
    FOR EACH STATEMENT EXECUTE FUNCTION changes_forgotten();
