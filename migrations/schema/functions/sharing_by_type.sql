-- Only a job whose types say so leaves room for others on its resources, or may be beside those who do.
CREATE OR REPLACE FUNCTION sharing_by_type() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE words text[] := (
    SELECT array_agg(split_part(word, '=', 1)) FROM jobs j, unnest(j.types) AS word WHERE j.job_id = NEW.job_id);
BEGIN
    IF NOT NEW.exclusive AND NOT coalesce(words && ARRAY['container', 'timesharing', 'placeholder'], false) THEN
        RAISE EXCEPTION 'job % shares its resources with nobody', NEW.job_id
            USING ERRCODE = 'check_violation', HINT = 'exclusive is false for a container, timesharing or placeholder';
    END IF;
    IF NEW.guest AND NOT coalesce(words && ARRAY['inner', 'allowed'], false) THEN
        RAISE EXCEPTION 'job % is no guest of others', NEW.job_id
            USING ERRCODE = 'check_violation', HINT = 'guest is true for the types inner and allowed';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION sharing_by_type IS 'hold those alone to be sharing whose types say so';

CREATE OR REPLACE TRIGGER sharing_by_type BEFORE INSERT ON assigned_resources FOR EACH ROW
    WHEN (NOT NEW.exclusive OR NEW.guest) EXECUTE FUNCTION sharing_by_type();
