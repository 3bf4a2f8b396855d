-- Who limited whom, and when: a row for each rule, set or period that was made, changed or removed.
CREATE OR REPLACE FUNCTION quota_noted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN
        RETURN NULL;
    END IF;
    INSERT INTO quota_changes (relation, change, content) VALUES (
        TG_TABLE_NAME,
        CASE TG_OP WHEN 'INSERT' THEN 'made' WHEN 'UPDATE' THEN 'changed' ELSE 'removed' END,
        coalesce(to_jsonb(NEW), to_jsonb(OLD)));
    RETURN NULL;
END $$;
COMMENT ON FUNCTION quota_noted IS 'keep every change of quotas';

CREATE OR REPLACE TRIGGER quota_noted AFTER INSERT OR UPDATE OR DELETE ON quotas
    FOR EACH ROW EXECUTE FUNCTION quota_noted();
CREATE OR REPLACE TRIGGER quota_noted AFTER INSERT OR UPDATE OR DELETE ON quota_sets
    FOR EACH ROW EXECUTE FUNCTION quota_noted();
CREATE OR REPLACE TRIGGER quota_noted AFTER INSERT OR UPDATE OR DELETE ON quota_periods
    FOR EACH ROW EXECUTE FUNCTION quota_noted();
CREATE OR REPLACE TRIGGER quota_noted AFTER INSERT OR UPDATE OR DELETE ON quota_exceptions
    FOR EACH ROW EXECUTE FUNCTION quota_noted();
