-- One row a statement and kind of change, however many jobs it moves. What comes back from the past is no news. All states
-- that a passage goes through are told in their order.
CREATE OR REPLACE FUNCTION changes_noted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'job_state_logs' THEN
        INSERT INTO changes (at, kind, ids, state, previous_state)
            SELECT min(lower(during)), 'job', array_agg(job_id ORDER BY job_id), state, previous_state
            FROM added GROUP BY previous_state, state, CASE WHEN previous_state IS NOT NULL THEN lower(during) END
            ORDER BY 1;
    ELSIF TG_TABLE_NAME = 'event_logs' THEN
        INSERT INTO changes (at, kind, ids)
            SELECT min(at), 'event', array_agg(event_id ORDER BY event_id) FROM added HAVING count(*) > 0;
    ELSIF TG_TABLE_NAME = 'queues' THEN
        INSERT INTO changes (kind, names, state)
            SELECT 'queue', array_agg(queue_name ORDER BY queue_name), TG_ARGV[0] FROM added HAVING count(*) > 0;
    ELSIF TG_OP = 'INSERT' THEN
        INSERT INTO changes (kind, names, state)
            SELECT 'node', array_agg(DISTINCT network_address), state FROM added
            WHERE network_address IS NOT NULL GROUP BY state ORDER BY state;
    ELSE
        INSERT INTO changes (kind, names, state, previous_state)
            SELECT 'node', array_agg(DISTINCT n.network_address), n.state, o.state
            FROM added n JOIN before o USING (resource_id)
            WHERE n.state <> o.state AND n.network_address IS NOT NULL GROUP BY n.state, o.state ORDER BY 3, 4;
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION changes_noted IS 'note what the stream of events tells';

CREATE OR REPLACE TRIGGER changes_noted AFTER INSERT ON job_state_logs
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT
    WHEN (coalesce(current_setting('oarpy.returning', true), '') = '') EXECUTE FUNCTION changes_noted();
CREATE OR REPLACE TRIGGER changes_noted AFTER INSERT ON event_logs
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT
    WHEN (coalesce(current_setting('oarpy.returning', true), '') = '') EXECUTE FUNCTION changes_noted();
CREATE OR REPLACE TRIGGER new_noted AFTER INSERT ON resources
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION changes_noted();
CREATE OR REPLACE TRIGGER changes_noted AFTER UPDATE ON resources
    REFERENCING OLD TABLE AS before NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION changes_noted();
CREATE OR REPLACE TRIGGER new_noted AFTER INSERT ON queues
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION changes_noted('added');
CREATE OR REPLACE TRIGGER changes_noted AFTER UPDATE ON queues
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION changes_noted('changed');
CREATE OR REPLACE TRIGGER gone_noted AFTER DELETE ON queues
    REFERENCING OLD TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION changes_noted('removed');
