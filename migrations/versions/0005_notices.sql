-- What is to be told and to whom; the notifier removes what it has told. Short: only jobs with --notify get here.
CREATE TABLE notices (
    notice_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id bigint REFERENCES jobs ON DELETE CASCADE,
    tag text NOT NULL CHECK (tag IN ('RUNNING', 'END', 'ERROR', 'INFO', 'SUSPENDED', 'RESUMING')),
    comment text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts smallint NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    due timestamptz NOT NULL DEFAULT '-infinity'
);
CREATE INDEX notices_job ON notices (job_id);
COMMENT ON TABLE notices IS 'what users (--notify) and the admin are still to be told';
COMMENT ON COLUMN notices.notice_id IS 'number of the notice';
COMMENT ON COLUMN notices.job_id IS 'the job whose user is told; none: the admin is told';
COMMENT ON COLUMN notices.tag IS 'what kind of news';
COMMENT ON COLUMN notices.comment IS 'the news in words';
COMMENT ON COLUMN notices.at IS 'when it happened';
COMMENT ON COLUMN notices.attempts IS 'how often telling it has failed';
COMMENT ON COLUMN notices.due IS 'not to be tried before';

-- A row trigger: its condition costs a job without --notify next to nothing.
CREATE FUNCTION job_noticed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO notices (job_id, tag, comment)
    SELECT NEW.job_id, t.tag, CASE WHEN NEW.message = '' OR t.tag <> 'ERROR' THEN t.comment
                                   ELSE t.comment || ' ' || NEW.message END
    FROM (VALUES ('Running', 'RUNNING', 'Job is running.'),
                 ('Terminated', 'END', 'Job stopped normally.'),
                 ('Error', 'ERROR', 'Job stopped abnormally or an error occurred.'),
                 ('Suspended', 'SUSPENDED', 'Job is suspended.'),
                 ('Resuming', 'RESUMING', 'Job is resuming.')) AS t (state, tag, comment)
    WHERE t.state = NEW.state AND NOT (OLD.state = 'Resuming' AND NEW.state = 'Running');
    RETURN NULL;
END $$;
COMMENT ON FUNCTION job_noticed IS 'queue the news that a job with --notify has changed its state';
CREATE TRIGGER jobs_noticed AFTER UPDATE OF state ON jobs FOR EACH ROW
    WHEN (NEW.notify <> '' AND NEW.state <> OLD.state) EXECUTE FUNCTION job_noticed();

-- Events of a job are told to its user, events of nodes to the admin; that a notice failed is told to nobody.
CREATE FUNCTION events_noticed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO notices (job_id, tag, comment)
        SELECT e.job_id, 'INFO', e.type || ': ' || e.description
        FROM new_events e JOIN jobs j USING (job_id)
        WHERE j.notify <> '' AND e.type NOT LIKE 'USER\_%\_NOTIFICATION%'
        ORDER BY e.event_id;
    INSERT INTO notices (tag, comment)
        SELECT 'INFO', e.type || ' ' || array_to_string(e.hosts, ' ') || ': ' || e.description
        FROM new_events e WHERE e.hosts <> '{}' ORDER BY e.event_id;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION events_noticed IS 'queue the news of an event for whom it concerns';
CREATE TRIGGER events_noticed AFTER INSERT ON event_logs
    REFERENCING NEW TABLE AS new_events FOR EACH STATEMENT EXECUTE FUNCTION events_noticed();

CREATE TRIGGER announced_new AFTER INSERT ON notices
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('notice queued');
