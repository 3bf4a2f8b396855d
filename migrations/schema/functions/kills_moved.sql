-- Who asks again, or decides, hurries up the canceller or the launcher. A kill with a date waits for its time.
CREATE OR REPLACE FUNCTION kills_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM new_kills WHERE state = 'decided') THEN
        PERFORM announce(ARRAY['kill decided']);
    END IF;
    IF EXISTS (SELECT FROM new_kills WHERE state = 'asked' AND not_before IS NULL) THEN
        PERFORM announce(ARRAY['kill requested']);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER kills_moved AFTER UPDATE ON kill_requests
    REFERENCING NEW TABLE AS new_kills FOR EACH STATEMENT EXECUTE FUNCTION kills_moved();
