-- The accounting says so (oarpy.counting) when it adds what ended jobs had. Rows written by hand count beside its own.
CREATE OR REPLACE FUNCTION sums_grow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF may_rewrite_history(TG_RELID) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the % resource-seconds of % from % on stay', OLD.consumption, OLD.user_name, OLD.window_start
        USING ERRCODE = 'check_violation',
            HINT = 'oaraccounting --reinitialize counts all jobs again; oarpy db check --accounting compares';
END $$;
COMMENT ON FUNCTION sums_grow IS 'let nothing but the accounting change the consumption of a window, and take nothing from it';

CREATE OR REPLACE TRIGGER sums_grow BEFORE UPDATE ON accounting FOR EACH ROW
    WHEN (NEW.consumption < OLD.consumption OR current_setting('oarpy.counting', true) IS DISTINCT FROM 'on'
        OR (NEW.window_start, NEW.window_stop, NEW.user_name, NEW.project, NEW.queue_name, NEW.consumption_type)
            <> (OLD.window_start, OLD.window_stop, OLD.user_name, OLD.project, OLD.queue_name, OLD.consumption_type))
    EXECUTE FUNCTION sums_grow();
