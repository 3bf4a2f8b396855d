-- What a statement of its own may change of a holding: one that is suspended gives it back, one that goes on has it
-- again. A job that runs and is resized has it no more, or again, as long as its nodes have not confirmed. The end of a
-- job closes it through jobs_moved.
CREATE OR REPLACE FUNCTION holding_stays() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    past tstzmultirange := tstzmultirange(tstzrange(NULL, now()));
    present text := (SELECT state FROM jobs WHERE job_id = OLD.job_id);
BEGIN
    IF may_rewrite_history(TG_RELID) THEN
        RETURN coalesce(NEW, OLD);
    END IF;
    IF TG_OP = 'DELETE' THEN
        IF EXISTS (SELECT FROM job_states WHERE state = present AND (holding OR final)) THEN
            RAISE EXCEPTION 'job % (%) holds or held resource %, which stays', OLD.job_id, present, OLD.resource_id
                USING ERRCODE = 'check_violation', HINT = 'oardel ends a job, and takes its resources from it';
        END IF;
        RETURN OLD;
    END IF;
    IF (NEW.job_id, NEW.resource_id, NEW.exclusive, NEW.guest)
            <> (OLD.job_id, OLD.resource_id, OLD.exclusive, OLD.guest)
       OR (NEW.suspended, NEW.during) <> (OLD.suspended, OLD.during)
          AND (NEW.during * past <> OLD.during * past
               OR (present NOT IN ('Suspended', 'Resuming') OR NEW.suspended = upper_inf(NEW.during))
                  AND (present <> 'Running' OR NEW.suspended OR NOT EXISTS (
                      SELECT FROM resizes r
                      WHERE r.job_id = OLD.job_id AND r.done_at IS NULL AND OLD.resource_id = ANY (r.resource_ids)
                        AND (r.kind = 'grant') = upper_inf(NEW.during)))) THEN
        RAISE EXCEPTION 'job % (%) holds or held resource %, which cannot change', OLD.job_id, present, OLD.resource_id
            USING ERRCODE = 'check_violation',
                HINT = 'oarhold -r, oarresume, oarresize and oardel change what a job holds; the past stays';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION holding_stays IS 'nothing that runs loses its resources, and the past stays as it was';

CREATE OR REPLACE TRIGGER holding_stays BEFORE UPDATE ON assigned_resources FOR EACH ROW
    WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION holding_stays();
CREATE OR REPLACE TRIGGER holding_kept BEFORE DELETE ON assigned_resources FOR EACH ROW
    WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION holding_stays();
