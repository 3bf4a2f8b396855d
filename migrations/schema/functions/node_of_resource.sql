-- A resource makes its node known, and notes since when it is in its state, whoever inserts or updates it.
CREATE OR REPLACE FUNCTION node_of_resource() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.network_address IS NOT NULL
       AND NOT EXISTS (SELECT FROM nodes WHERE network_address = NEW.network_address) THEN
        INSERT INTO nodes (network_address) VALUES (NEW.network_address) ON CONFLICT DO NOTHING;
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.state <> OLD.state THEN
        NEW.state_since := clock_timestamp();
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER node_of_resource BEFORE INSERT OR UPDATE OF network_address, state ON resources
    FOR EACH ROW EXECUTE FUNCTION node_of_resource();
