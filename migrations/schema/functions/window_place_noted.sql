CREATE OR REPLACE FUNCTION window_place_noted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO window_changes (job_id, ready, deadline, start_time, fixed)
        SELECT job_id, ready, deadline, NEW.reservation_start, fixed_at IS NOT NULL
        FROM reservation_windows WHERE job_id = NEW.job_id;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION window_place_noted IS 'keep where in its window a reservation was';

CREATE OR REPLACE TRIGGER window_place_noted AFTER UPDATE OF reservation_start ON jobs
    FOR EACH ROW WHEN (OLD.reservation_start IS DISTINCT FROM NEW.reservation_start)
    EXECUTE FUNCTION window_place_noted();
