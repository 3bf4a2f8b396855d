-- Whoever changes it, oarwalltime or somebody in psql: the node must follow, and the Gantt.
CREATE OR REPLACE FUNCTION walltime_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO walltime_changes (job_id, node_told) VALUES (NEW.job_id, false)
        ON CONFLICT (job_id) DO UPDATE SET node_told = false;
    PERFORM announce(ARRAY['walltime changed']);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION walltime_changed IS 'note that the node of a job is to be told its walltime';

CREATE OR REPLACE TRIGGER walltime_changed AFTER UPDATE OF walltime ON jobs FOR EACH ROW
    WHEN (OLD.walltime <> NEW.walltime AND OLD.state = NEW.state
          AND NEW.state IN ('Launching', 'Running', 'Suspended', 'Resuming'))
    EXECUTE FUNCTION walltime_changed();
