-- The log has one range for each state that a resource was in, the last one open. What it says of later times, which
-- somebody wrote there by hand, gives way: a log keeps no resource from changing its state.
CREATE OR REPLACE FUNCTION resource_state_logged() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE moment timestamptz := clock_timestamp();
BEGIN
    DELETE FROM resource_state_logs
        WHERE resource_id = NEW.resource_id AND during && tstzrange(moment, NULL) AND lower(during) >= moment;
    UPDATE resource_state_logs SET during = tstzrange(lower(during), moment)
        WHERE resource_id = NEW.resource_id AND during && tstzrange(moment, NULL);
    INSERT INTO resource_state_logs VALUES (NEW.resource_id, NEW.state, NEW.state_by, tstzrange(moment, NULL));
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER resource_born AFTER INSERT ON resources FOR EACH ROW EXECUTE FUNCTION resource_state_logged();
CREATE OR REPLACE TRIGGER resource_moved AFTER UPDATE ON resources FOR EACH ROW
    WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION resource_state_logged();
