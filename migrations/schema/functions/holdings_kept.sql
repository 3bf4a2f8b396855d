-- The amounts that a job holds it holds until nothing of it is left on its nodes: then its move releases them, by
-- triggers. So only statements of their own are looked at. A suspended job may give some back with its resources.
CREATE OR REPLACE FUNCTION holdings_kept() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE held record;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        SELECT j.job_id, j.state INTO held
            FROM (SELECT job_id, consumable, block FROM gone WHERE upper_inf(during)
                  EXCEPT SELECT job_id, consumable, block FROM kept WHERE upper_inf(during)) AS g
                JOIN jobs j USING (job_id) JOIN job_states s ON s.state = j.state AND s.holding
            WHERE j.state <> 'Suspended'
               OR NOT EXISTS (SELECT FROM assigned_resources a WHERE a.job_id = j.job_id AND a.suspended)
            ORDER BY 1 LIMIT 1;
    ELSE
        SELECT j.job_id, j.state INTO held FROM gone g JOIN jobs j USING (job_id)
            JOIN job_states s ON s.state = j.state AND s.holding
            ORDER BY 1 LIMIT 1;
    END IF;
    IF FOUND THEN
        RAISE EXCEPTION 'job % is % and keeps what it holds until it is over', held.job_id, held.state
            USING ERRCODE = 'check_violation', HINT = format('end it with oardel %s', held.job_id);
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION holdings_kept IS 'let nobody take from a job the amounts that it holds';

CREATE OR REPLACE TRIGGER holdings_kept AFTER DELETE ON assigned_amounts
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION holdings_kept();
CREATE OR REPLACE TRIGGER holdings_kept_changed AFTER UPDATE ON assigned_amounts
    REFERENCING OLD TABLE AS gone NEW TABLE AS kept FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION holdings_kept();
