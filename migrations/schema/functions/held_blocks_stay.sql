CREATE OR REPLACE FUNCTION held_blocks_stay() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE moved record;
BEGIN
    IF EXISTS (SELECT FROM consumables) THEN
        SELECT n.resource_id, c.level, c.name, a.job_id INTO moved
            FROM consumables c CROSS JOIN changed n JOIN before o USING (resource_id)
                JOIN assigned_resources a ON a.resource_id = n.resource_id AND (upper_inf(a.during) OR a.suspended)
                JOIN assigned_amounts m ON m.job_id = a.job_id AND m.consumable = c.name AND upper_inf(m.during)
            WHERE to_jsonb(o) ->> c.level IS DISTINCT FROM to_jsonb(n) ->> c.level
            ORDER BY n.resource_id, a.job_id LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'the % of resource % cannot change: job % holds % there',
                moved.level, moved.resource_id, moved.job_id, moved.name;
        END IF;
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION held_blocks_stay IS 'no resource leaves the block in which its job holds an amount';

CREATE OR REPLACE TRIGGER held_blocks_stay AFTER UPDATE ON resources
    REFERENCING OLD TABLE AS before NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION held_blocks_stay();
