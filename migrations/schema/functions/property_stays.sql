-- What the list says of a property is what its column is, and what oarpy itself needs stays in it.
CREATE OR REPLACE FUNCTION property_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' AND OLD.protected AND (TG_OP = 'DELETE' OR OLD IS DISTINCT FROM NEW) THEN
        RAISE EXCEPTION 'property % is part of oarpy and stays as it is', OLD.name USING ERRCODE = 'check_violation';
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_attribute
                   WHERE attrelid = 'resources'::regclass AND attname = NEW.name AND attnum > 0 AND NOT attisdropped
                     AND atttypid = NEW.kind::regtype) THEN
        RAISE EXCEPTION 'resources has no column % of type %', NEW.name, NEW.kind
            USING ERRCODE = 'check_violation', HINT = 'oarproperty -a adds a property with its column';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION property_stays IS 'keep the list of properties to the columns of resources';

CREATE OR REPLACE TRIGGER property_stays BEFORE INSERT OR UPDATE OR DELETE ON resource_properties
    FOR EACH ROW EXECUTE FUNCTION property_stays();
