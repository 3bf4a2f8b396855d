-- A passage is news of each of its states.
CREATE OR REPLACE FUNCTION job_noticed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO notices (job_id, tag, comment)
    SELECT NEW.job_id, t.tag, CASE WHEN NEW.message = '' OR t.tag <> 'ERROR' THEN t.comment
                                   ELSE t.comment || ' ' || NEW.message END
    FROM (VALUES (1, 'Running', 'RUNNING', 'Job is running.'),
                 (2, 'Terminated', 'END', 'Job stopped normally.'),
                 (2, 'Error', 'ERROR', 'Job stopped abnormally or an error occurred.'),
                 (2, 'Suspended', 'SUSPENDED', 'Job is suspended.'),
                 (2, 'Resuming', 'RESUMING', 'Job is resuming.')) AS t (place, state, tag, comment)
    WHERE (t.state = NEW.state AND NOT (OLD.state = 'Resuming' AND NEW.state = 'Running'))
       OR EXISTS (SELECT FROM job_passages p
                  WHERE p.from_state = OLD.state AND p.to_state = NEW.state AND t.state = ANY (p.through))
    ORDER BY t.place;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION job_noticed IS 'queue the news that a job with --notify has changed its state';

CREATE OR REPLACE TRIGGER jobs_noticed AFTER UPDATE OF state ON jobs FOR EACH ROW
    WHEN (NEW.notify <> '' AND NEW.state <> OLD.state) EXECUTE FUNCTION job_noticed();
