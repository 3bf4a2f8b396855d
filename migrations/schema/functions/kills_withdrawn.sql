-- A job that nobody wants killed any more is planned again; one that is given more time holds longer.
CREATE OR REPLACE FUNCTION kills_withdrawn() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE spared bigint[];
BEGIN
    IF TG_OP = 'DELETE' THEN
        SELECT array_agg(job_id) INTO spared FROM before WHERE state <> 'done';
    ELSE
        SELECT array_agg(job_id) INTO spared
            FROM (SELECT job_id, not_before FROM before WHERE state <> 'done'
                  EXCEPT SELECT job_id, not_before FROM changed WHERE state <> 'done') AS no_more;
    END IF;
    IF EXISTS (SELECT FROM jobs WHERE job_id = ANY (spared) AND is_live(state)) THEN
        PERFORM announce(ARRAY['job changed']);
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION kills_withdrawn IS 'announce live jobs that are not to be killed any more, or at another time';

-- what the end of a job settles is none of that
CREATE OR REPLACE TRIGGER kills_withdrawn AFTER UPDATE ON kill_requests
    REFERENCING OLD TABLE AS before NEW TABLE AS changed FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION kills_withdrawn();
CREATE OR REPLACE TRIGGER kills_gone AFTER DELETE ON kill_requests
    REFERENCING OLD TABLE AS before FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION kills_withdrawn();
