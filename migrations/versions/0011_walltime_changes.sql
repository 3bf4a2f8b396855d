-- Walltimes of running jobs may change: what is asked, what was granted, and whether the job's node knows.
CREATE TABLE walltime_changes (
    job_id bigint PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
    pending interval NOT NULL DEFAULT '0',
    forced boolean NOT NULL DEFAULT false,
    whole boolean NOT NULL DEFAULT false,
    delay_next_jobs boolean NOT NULL DEFAULT false,
    requested_at timestamptz NOT NULL DEFAULT now(),
    requested_by text NOT NULL DEFAULT session_user,
    give_up_at timestamptz,
    granted interval NOT NULL DEFAULT '0',
    granted_with_force interval NOT NULL DEFAULT '0',
    granted_with_whole interval NOT NULL DEFAULT '0',
    granted_with_delay_next_jobs interval NOT NULL DEFAULT '0',
    node_told boolean NOT NULL DEFAULT true
);
CREATE INDEX walltime_changes_pending ON walltime_changes (job_id) WHERE pending <> interval '0';
CREATE INDEX walltime_changes_untold ON walltime_changes (job_id) WHERE NOT node_told;

COMMENT ON TABLE walltime_changes IS 'what oarwalltime asks for running jobs, and what they got';
COMMENT ON COLUMN walltime_changes.job_id IS 'the job';
COMMENT ON COLUMN walltime_changes.pending IS 'asked for and not granted yet; below 0: shorter';
COMMENT ON COLUMN walltime_changes.forced IS 'what is pending needs to wait for neither the end of the job nor its turn';
COMMENT ON COLUMN walltime_changes.whole IS 'what is pending is granted all at once or not at all';
COMMENT ON COLUMN walltime_changes.delay_next_jobs IS 'what is pending may delay jobs that are predicted, not reserved';
COMMENT ON COLUMN walltime_changes.requested_at IS 'when the last request was made';
COMMENT ON COLUMN walltime_changes.requested_by IS 'by whom';
COMMENT ON COLUMN walltime_changes.give_up_at IS 'when what is then still pending is dropped; NULL: never';
COMMENT ON COLUMN walltime_changes.granted IS 'sum of what was granted, with a sign';
COMMENT ON COLUMN walltime_changes.granted_with_force IS 'the part of it that was forced';
COMMENT ON COLUMN walltime_changes.granted_with_whole IS 'the part of it that was asked whole';
COMMENT ON COLUMN walltime_changes.granted_with_delay_next_jobs IS 'the part of it that was allowed to delay others';
COMMENT ON COLUMN walltime_changes.node_told IS 'whether the first node of the job enforces its present walltime';

CREATE FUNCTION walltime_asked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM changed WHERE pending <> interval '0') THEN
        PERFORM announce(ARRAY['walltime asked']);
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION walltime_asked IS 'tell that a walltime change is pending';
CREATE TRIGGER announced_new AFTER INSERT ON walltime_changes
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION walltime_asked();
CREATE TRIGGER announced AFTER UPDATE ON walltime_changes
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION walltime_asked();

-- Whoever changes it, oarwalltime or somebody in psql: the node must follow, and the Gantt.
CREATE FUNCTION walltime_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO walltime_changes (job_id, node_told) VALUES (NEW.job_id, false)
        ON CONFLICT (job_id) DO UPDATE SET node_told = false;
    PERFORM announce(ARRAY['walltime changed']);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION walltime_changed IS 'note that the node of a job is to be told its walltime';
CREATE TRIGGER walltime_changed AFTER UPDATE OF walltime ON jobs FOR EACH ROW
    WHEN (OLD.walltime <> NEW.walltime AND OLD.state = NEW.state
          AND NEW.state IN ('Launching', 'Running', 'Suspended', 'Resuming'))
    EXECUTE FUNCTION walltime_changed();
