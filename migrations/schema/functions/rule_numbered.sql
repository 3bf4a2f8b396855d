-- Every change of a rule gets the next version number; an update that changes nothing gets none.
CREATE OR REPLACE FUNCTION rule_numbered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.name <> OLD.name THEN
        RAISE EXCEPTION 'rule % cannot be renamed', OLD.name
            USING ERRCODE = 'check_violation', HINT = 'add it under the new name, delete the old';
    END IF;
    IF TG_OP = 'UPDATE' AND (NEW.priority, NEW.enabled, NEW.rule_text) = (OLD.priority, OLD.enabled, OLD.rule_text) THEN
        RETURN OLD;
    END IF;
    -- a name that is used again goes on counting where the deleted rule stopped
    SELECT coalesce(max(version), 0) + 1 INTO NEW.version FROM admission_rule_versions WHERE name = NEW.name;
    RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER rule_numbered BEFORE INSERT OR UPDATE ON admission_rules
    FOR EACH ROW EXECUTE FUNCTION rule_numbered();
