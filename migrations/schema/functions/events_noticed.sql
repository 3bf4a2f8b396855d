-- Events of a job are told to its user, events of nodes to the admin; that a notice failed is told to nobody. That a
-- reservation moved, and what became of the promise of a bag, have tags of their own. Nobody is told each time that a bag
-- is expected earlier or later than before: the stream of events has that.
-- Events that come back from the past with their jobs are no news.
CREATE OR REPLACE FUNCTION events_noticed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO notices (job_id, tag, comment)
        SELECT e.job_id, CASE WHEN e.type = 'RESERVATION_MOVED' THEN 'MOVED'
                              WHEN e.type IN ('PROMISED', 'IMPROVED', 'END') THEN e.type ELSE 'INFO' END,
               e.type || ': ' || e.description
        FROM new_events e JOIN jobs j USING (job_id)
        WHERE j.notify <> '' AND e.type <> 'EXPECTED' AND e.type NOT LIKE 'USER\_%\_NOTIFICATION%'
        ORDER BY e.event_id;
    INSERT INTO notices (tag, comment)
        SELECT 'INFO', e.type || ' ' || array_to_string(e.hosts, ' ') || ': ' || e.description
        FROM new_events e WHERE e.hosts <> '{}' ORDER BY e.event_id;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION events_noticed IS 'queue the news of an event for whom it concerns';

CREATE OR REPLACE TRIGGER events_noticed AFTER INSERT ON event_logs
    REFERENCING NEW TABLE AS new_events FOR EACH STATEMENT
    WHEN (coalesce(current_setting('oarpy.returning', true), '') = '') EXECUTE FUNCTION events_noticed();
