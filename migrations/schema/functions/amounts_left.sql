-- A job that runs on without some of its hosts gives back the amounts of the blocks in which it has none any more.
CREATE OR REPLACE FUNCTION amounts_left() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE moment timestamptz := clock_timestamp();
BEGIN
    IF EXISTS (SELECT FROM consumables) THEN
        UPDATE assigned_amounts m
            SET during = tstzrange(lower(m.during), greatest(moment, lower(m.during) + interval '1 microsecond'))
            FROM consumables c
            WHERE c.name = m.consumable AND upper_inf(m.during)
              AND m.job_id IN (SELECT job_id FROM changed JOIN jobs USING (job_id)
                               WHERE state = 'Running' AND NOT upper_inf(changed.during))
              AND NOT EXISTS (
                  SELECT FROM assigned_resources a JOIN resources r USING (resource_id)
                  WHERE a.job_id = m.job_id AND (upper_inf(a.during) OR a.suspended)
                    AND to_jsonb(r) ->> c.level = m.block);
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION amounts_left IS 'take back the amounts of hosts that a running job has given back';

CREATE OR REPLACE TRIGGER amounts_left AFTER UPDATE ON assigned_resources
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT
    WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION amounts_left();
