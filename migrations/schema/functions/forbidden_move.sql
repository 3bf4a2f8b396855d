CREATE OR REPLACE FUNCTION forbidden_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM job_transitions WHERE from_state = OLD.state AND to_state = NEW.state)
       AND NOT EXISTS (SELECT FROM job_passages WHERE from_state = OLD.state AND to_state = NEW.state) THEN
        RAISE EXCEPTION 'job % cannot go from % to %', OLD.job_id, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', HINT = 'job_transitions lists the allowed moves';
    ELSIF OLD.state IN ('Launching', 'Running', 'Suspended', 'Resuming', 'Finishing')
          AND NEW.state NOT IN ('Launching', 'Running', 'Suspended', 'Resuming', 'Finishing')
          AND NOT NEW.left_nothing THEN
        RAISE EXCEPTION 'job % is % and may have programs on its nodes: they are ended first', OLD.job_id, OLD.state
            USING ERRCODE = 'check_violation', HINT = format('end it with oardel %s', OLD.job_id);
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION forbidden_move IS 'name the move when a change of state by hand is not allowed';

-- The condition is what the checks of the table refuse anyhow, so that no other change costs anything; and that what a
-- job holds becomes free only in a statement which says that nothing is left of it on its nodes.
CREATE OR REPLACE TRIGGER forbidden_move BEFORE UPDATE OF state ON jobs FOR EACH ROW
    WHEN (NEW.state <> OLD.state AND (
        (NEW.state IN ('Terminated', 'Error')) <> (NEW.ended_at IS NOT NULL)
        OR (NEW.state IN ('toLaunch', 'Launching', 'Running', 'Suspended', 'Resuming', 'Finishing', 'Terminated')
            AND (NEW.moldable_id IS NULL OR NEW.walltime IS NULL))
        OR (NEW.state IN ('Running', 'Suspended', 'Resuming', 'Terminated') AND NEW.started_at IS NULL)
        OR (NEW.state IN ('Hold', 'Waiting', 'toAckReservation', 'toLaunch') AND NEW.started_at IS NOT NULL)
        OR (NEW.state = 'Finishing' AND NEW.final_state IS NULL)
        OR (OLD.state IN ('Launching', 'Running', 'Suspended', 'Resuming', 'Finishing')
            AND NEW.state NOT IN ('Launching', 'Running', 'Suspended', 'Resuming', 'Finishing')
            AND NOT NEW.left_nothing)))
    EXECUTE FUNCTION forbidden_move();
