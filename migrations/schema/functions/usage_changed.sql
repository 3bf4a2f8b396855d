-- Orders that look back see what anybody else changes at once; what accounting adds, within some seconds.
CREATE OR REPLACE FUNCTION usage_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE site SET usage_version = (usage_version + 1) % 9007199254740992;
    PERFORM announce(ARRAY['usage changed']);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION usage_changed IS 'announce that past consumption is another';

CREATE OR REPLACE TRIGGER usage_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON accounting
    FOR EACH STATEMENT WHEN (current_setting('application_name') <> 'oarpy accounting')
    EXECUTE FUNCTION usage_changed();
