-- Whoever brings a node back, the reason why it was away is over when none of its resources is away any more.
CREATE OR REPLACE FUNCTION node_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE nodes n SET away_reason = NULL, away_by = NULL, away_since = NULL
        WHERE n.network_address = NEW.network_address AND n.away_since IS NOT NULL
          AND NOT EXISTS (SELECT FROM resources r
                          WHERE r.network_address = n.network_address AND (r.state <> 'Alive' OR r.drain));
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER node_back AFTER UPDATE OF state, drain ON resources FOR EACH ROW
    WHEN (NEW.state = 'Alive' AND NOT NEW.drain AND (OLD.state <> 'Alive' OR OLD.drain)) EXECUTE FUNCTION node_back();
