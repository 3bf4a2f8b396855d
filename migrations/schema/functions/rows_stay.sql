-- The row of the site, of the last pass, and the rows that say what states and moves there are: code counts on them.
-- Migrations say so (oarpy.migrating), and may.
CREATE OR REPLACE FUNCTION rows_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the rows of % are part of oarpy and stay as they are', TG_TABLE_NAME
        USING ERRCODE = 'check_violation', HINT = 'nothing was changed';
END $$;
COMMENT ON FUNCTION rows_stay IS 'refuse to take away, or change, what is part of this version';

CREATE OR REPLACE TRIGGER rows_stay BEFORE DELETE OR TRUNCATE ON site
    FOR EACH STATEMENT WHEN (current_setting('oarpy.migrating', true) IS DISTINCT FROM 'yes')
    EXECUTE FUNCTION rows_stay();
CREATE OR REPLACE TRIGGER rows_stay BEFORE DELETE OR TRUNCATE ON scheduling_passes
    FOR EACH STATEMENT WHEN (current_setting('oarpy.migrating', true) IS DISTINCT FROM 'yes')
    EXECUTE FUNCTION rows_stay();
CREATE OR REPLACE TRIGGER rows_stay BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON job_states
    FOR EACH STATEMENT WHEN (current_setting('oarpy.migrating', true) IS DISTINCT FROM 'yes')
    EXECUTE FUNCTION rows_stay();
CREATE OR REPLACE TRIGGER rows_stay BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON job_transitions
    FOR EACH STATEMENT WHEN (current_setting('oarpy.migrating', true) IS DISTINCT FROM 'yes')
    EXECUTE FUNCTION rows_stay();
CREATE OR REPLACE TRIGGER rows_stay BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON job_passages
    FOR EACH STATEMENT WHEN (current_setting('oarpy.migrating', true) IS DISTINCT FROM 'yes')
    EXECUTE FUNCTION rows_stay();
CREATE OR REPLACE TRIGGER rows_stay BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON resource_states
    FOR EACH STATEMENT WHEN (current_setting('oarpy.migrating', true) IS DISTINCT FROM 'yes')
    EXECUTE FUNCTION rows_stay();
