-- Who made, changed and removed projects and members, and when.
CREATE OR REPLACE FUNCTION project_noted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN
        RETURN NULL;
    END IF;
    INSERT INTO project_changes (relation, change, content) VALUES (
        TG_TABLE_NAME,
        CASE TG_OP WHEN 'INSERT' THEN 'made' WHEN 'UPDATE' THEN 'changed' ELSE 'removed' END,
        coalesce(to_jsonb(NEW), to_jsonb(OLD)));
    RETURN NULL;
END $$;
COMMENT ON FUNCTION project_noted IS 'keep every change of projects and members';

CREATE OR REPLACE TRIGGER project_noted AFTER INSERT OR UPDATE OR DELETE ON projects
    FOR EACH ROW EXECUTE FUNCTION project_noted();
CREATE OR REPLACE TRIGGER project_noted AFTER INSERT OR UPDATE OR DELETE ON project_members
    FOR EACH ROW EXECUTE FUNCTION project_noted();
