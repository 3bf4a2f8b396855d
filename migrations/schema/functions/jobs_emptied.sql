CREATE OR REPLACE FUNCTION jobs_emptied() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE live record;
BEGIN
    SELECT job_id, state INTO live FROM jobs WHERE is_live(state) ORDER BY job_id LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'job % is live (%) and cannot be removed', live.job_id, live.state
            USING ERRCODE = 'check_violation', HINT = 'delete it with oardel first';
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION jobs_emptied IS 'let all jobs be removed at once only when all are over';

-- In the order of their names: before history_stays, whose hint is not for live jobs.
CREATE OR REPLACE TRIGGER emptied BEFORE TRUNCATE ON jobs FOR EACH STATEMENT EXECUTE FUNCTION jobs_emptied();
CREATE OR REPLACE TRIGGER emptied BEFORE TRUNCATE ON submissions FOR EACH STATEMENT EXECUTE FUNCTION jobs_emptied();
