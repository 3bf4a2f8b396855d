-- A job comes into each of these states once, whatever is heard of it again.
CREATE OR REPLACE FUNCTION grid_job_noticed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO notices (grid_job_id, tag, comment)
    SELECT NEW.id, t.tag, CASE WHEN NEW.message = '' OR t.tag <> 'ERROR' THEN t.comment
                               ELSE t.comment || ' ' || NEW.message END
    FROM (VALUES ('Running', 'RUNNING', 'Job is running.'),
                 ('Terminated', 'END', 'Job stopped normally.'),
                 ('Missed', 'ERROR', 'Job did not start at its deadline.'),
                 ('Error', 'ERROR', 'Job stopped abnormally or an error occurred.')) AS t (state, tag, comment)
    WHERE t.state = NEW.state;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION grid_job_noticed IS 'queue the news that a grid job with --notify has changed its state';

CREATE OR REPLACE TRIGGER grid_jobs_noticed AFTER UPDATE OF state ON grid_jobs FOR EACH ROW
    WHEN (NEW.notify <> '' AND NEW.state <> OLD.state) EXECUTE FUNCTION grid_job_noticed();
