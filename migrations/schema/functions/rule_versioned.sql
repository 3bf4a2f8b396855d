-- Each version of a rule is kept, its deletion too.
CREATE OR REPLACE FUNCTION rule_versioned() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO admission_rule_versions (name, version, priority, enabled, rule_text, deleted)
            VALUES (OLD.name, OLD.version + 1, OLD.priority, OLD.enabled, OLD.rule_text, true);
    ELSIF TG_OP = 'INSERT' OR NEW.version <> OLD.version THEN
        INSERT INTO admission_rule_versions (name, version, priority, enabled, rule_text)
            VALUES (NEW.name, NEW.version, NEW.priority, NEW.enabled, NEW.rule_text);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER rule_versioned AFTER INSERT OR UPDATE OR DELETE ON admission_rules
    FOR EACH ROW EXECUTE FUNCTION rule_versioned();
