-- Whoever changes a window has a pass look at it, a pass that answers included: that is rare. How it was is kept, of
-- reservations that are not over: others come and go with the past.
CREATE OR REPLACE FUNCTION window_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM changed) THEN
        PERFORM announce(ARRAY['job changed']);
        INSERT INTO window_changes (job_id, ready, deadline, start_time, fixed)
            SELECT c.job_id, c.ready, CASE WHEN TG_OP <> 'DELETE' THEN c.deadline END, j.reservation_start,
                   c.fixed_at IS NOT NULL
            FROM changed c JOIN jobs j USING (job_id) WHERE is_live(j.state);
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION window_changed IS
    'tell passes that somebody gave, changed or took the window of a reservation, and keep how it was';

CREATE OR REPLACE TRIGGER new_window AFTER INSERT ON reservation_windows
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION window_changed();
CREATE OR REPLACE TRIGGER window_changed AFTER UPDATE ON reservation_windows
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION window_changed();
CREATE OR REPLACE TRIGGER window_gone AFTER DELETE ON reservation_windows
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT
    WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION window_changed();
