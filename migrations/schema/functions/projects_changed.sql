-- Two sessions that move projects take turns at the one row of site: the second one sees what the first did, or fails.
CREATE OR REPLACE FUNCTION projects_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE round text;
BEGIN
    UPDATE site SET projects_version = (projects_version + 1) % 9007199254740992;
    PERFORM announce(ARRAY['projects changed']);
    WITH RECURSIVE above (project, parent) AS (
        SELECT project, parent FROM projects WHERE parent IS NOT NULL
        UNION
        SELECT above.project, projects.parent FROM above JOIN projects ON projects.project = above.parent
        WHERE projects.parent IS NOT NULL
    )
    SELECT min(project) INTO round FROM above WHERE project = parent;
    IF round IS NOT NULL THEN
        RAISE EXCEPTION 'project % would be below itself', round USING ERRCODE = 'check_violation',
            CONSTRAINT = 'no_circle_of_parents';
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION projects_changed IS 'keep projects a tree, and tell passes that it changed';

CREATE OR REPLACE TRIGGER projects_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON projects
    FOR EACH STATEMENT EXECUTE FUNCTION projects_changed();
