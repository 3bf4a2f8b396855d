-- TRUNCATE fires no trigger of a row; the statement names the table of changes.
CREATE OR REPLACE FUNCTION emptied_noted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('INSERT INTO %I (relation, change, content) SELECT %L, ''removed'', to_jsonb(gone) FROM %s gone',
        TG_ARGV[0], TG_TABLE_NAME, TG_RELID::regclass);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION emptied_noted IS 'keep every row that goes when a table is emptied, in the table of changes that the trigger names';

CREATE OR REPLACE TRIGGER emptied_noted BEFORE TRUNCATE ON projects
    FOR EACH STATEMENT EXECUTE FUNCTION emptied_noted('project_changes');
CREATE OR REPLACE TRIGGER emptied_noted BEFORE TRUNCATE ON project_members
    FOR EACH STATEMENT EXECUTE FUNCTION emptied_noted('project_changes');
CREATE OR REPLACE TRIGGER emptied_noted BEFORE TRUNCATE ON quotas
    FOR EACH STATEMENT EXECUTE FUNCTION emptied_noted('quota_changes');
CREATE OR REPLACE TRIGGER emptied_noted BEFORE TRUNCATE ON quota_sets
    FOR EACH STATEMENT EXECUTE FUNCTION emptied_noted('quota_changes');
CREATE OR REPLACE TRIGGER emptied_noted BEFORE TRUNCATE ON quota_periods
    FOR EACH STATEMENT EXECUTE FUNCTION emptied_noted('quota_changes');
CREATE OR REPLACE TRIGGER emptied_noted BEFORE TRUNCATE ON quota_exceptions
    FOR EACH STATEMENT EXECUTE FUNCTION emptied_noted('quota_changes');
