-- Whoever moves an accepted reservation, or changes its walltime, moves what it will hold. Where another reservation has
-- one of the resources then, the exclusion constraint refuses that.
CREATE OR REPLACE FUNCTION reservation_moved() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE later interval := coalesce(NEW.reservation_start - OLD.reservation_start, interval '0');
BEGIN
    UPDATE reserved_resources SET during = tstzrange(
            lower(during) + later, upper(during) + later + coalesce(NEW.walltime - OLD.walltime, interval '0'))
        WHERE job_id = NEW.job_id;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION reservation_moved IS 'have what a reservation will hold follow its start and walltime';

CREATE OR REPLACE TRIGGER reservation_moved AFTER UPDATE OF reservation_start, walltime ON jobs FOR EACH ROW
    WHEN (NEW.state IN ('Hold', 'Waiting') AND OLD.reservation_state = 'Scheduled'
          AND (OLD.reservation_start, OLD.walltime) IS DISTINCT FROM (NEW.reservation_start, NEW.walltime))
    EXECUTE FUNCTION reservation_moved();
