-- The log has one range for each reason of a node to be away, the last one open. What the same transaction says better
-- replaces what it said before.
CREATE OR REPLACE FUNCTION node_away_logged() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE moment timestamptz := clock_timestamp();
BEGIN
    DELETE FROM node_away_logs
        WHERE network_address = NEW.network_address AND upper_inf(during) AND lower(during) >= now();
    UPDATE node_away_logs SET during = tstzrange(lower(during), moment)
        WHERE network_address = NEW.network_address AND upper_inf(during);
    IF NEW.away_since IS NOT NULL THEN
        INSERT INTO node_away_logs
            VALUES (NEW.network_address, coalesce(NEW.away_reason, ''), coalesce(NEW.away_by, session_user),
                    tstzrange(moment, NULL));
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER node_away_logged AFTER UPDATE OF away_reason, away_by, away_since ON nodes FOR EACH ROW
    WHEN ((OLD.away_reason, OLD.away_by, OLD.away_since) IS DISTINCT FROM
          (NEW.away_reason, NEW.away_by, NEW.away_since))
    EXECUTE FUNCTION node_away_logged();
