-- A suspended job gives back resources for the time, and its walltime stands still.
ALTER TABLE jobs
    ADD COLUMN suspended_at timestamptz,
    ADD COLUMN suspended_time interval NOT NULL DEFAULT '0',
    ADD CONSTRAINT suspended_since CHECK ((suspended_at IS NOT NULL) = (state IN ('Suspended', 'Resuming')));
COMMENT ON COLUMN jobs.suspended_at IS 'since when it is suspended; NULL when it is not';
COMMENT ON COLUMN jobs.suspended_time IS 'how long it was suspended before, in all; added to its walltime';

ALTER TABLE assigned_resources ADD COLUMN suspended boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN assigned_resources.suspended IS 'given back while the job is suspended: others may hold it';
COMMENT ON COLUMN assigned_resources.during IS
    'when it held it, without an upper end while it does; from its last resumption on if it was suspended';
ALTER TABLE assigned_resources
    DROP CONSTRAINT one_exclusive_holder,
    ADD CONSTRAINT one_exclusive_holder
        EXCLUDE USING gist (resource_id WITH =, during WITH &&) WHERE (exclusive AND NOT suspended);
CREATE INDEX assigned_resources_suspended ON assigned_resources (resource_id) WHERE suspended;

CREATE TABLE suspend_requests (
    job_id bigint PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
    requested_at timestamptz NOT NULL DEFAULT now(),
    requested_by text NOT NULL DEFAULT session_user
);
COMMENT ON TABLE suspend_requests IS 'running jobs that are to be suspended';
COMMENT ON COLUMN suspend_requests.job_id IS 'the job';
COMMENT ON COLUMN suspend_requests.requested_at IS 'when that was asked';
COMMENT ON COLUMN suspend_requests.requested_by IS 'by whom';

-- Whoever moves the job: how long it stood still is known.
CREATE FUNCTION job_paused() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state IN ('Suspended', 'Resuming') THEN
        NEW.suspended_at := coalesce(OLD.suspended_at, clock_timestamp());
    ELSE
        NEW.suspended_time := OLD.suspended_time + greatest(clock_timestamp() - OLD.suspended_at, interval '0');
        NEW.suspended_at := NULL;
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION job_paused IS 'measure the time for which a job is suspended';
CREATE TRIGGER job_paused BEFORE UPDATE OF state ON jobs FOR EACH ROW
    WHEN (NEW.state <> OLD.state AND (NEW.state IN ('Suspended', 'Resuming') OR OLD.state IN ('Suspended', 'Resuming')))
    EXECUTE FUNCTION job_paused();

CREATE FUNCTION expected_end(job jobs) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT job.started_at + job.walltime + job.suspended_time + coalesce(now() - job.suspended_at, interval '0')
$$;
COMMENT ON FUNCTION expected_end IS 'when the walltime of a job is over, were it resumed now if it is suspended';

CREATE FUNCTION resources_returned() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM announce(ARRAY['resources returned']);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION resources_returned IS 'tell that a suspended job gave resources back, or has them again';
CREATE TRIGGER resources_returned AFTER UPDATE OF suspended ON assigned_resources FOR EACH ROW
    WHEN (NEW.suspended <> OLD.suspended) EXECUTE FUNCTION resources_returned();

CREATE TRIGGER announced_new AFTER INSERT ON suspend_requests
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('suspend requested');
