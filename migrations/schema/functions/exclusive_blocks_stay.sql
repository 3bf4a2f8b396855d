CREATE OR REPLACE FUNCTION exclusive_blocks_stay() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE moved record;
BEGIN
    IF EXISTS (SELECT FROM held_blocks) THEN
        SELECT n.resource_id, h.property, h.job_id INTO moved
            FROM changed n JOIN before o USING (resource_id)
                JOIN assigned_resources a ON a.resource_id = n.resource_id AND (upper_inf(a.during) OR a.suspended)
                JOIN held_blocks h ON h.job_id = a.job_id
            WHERE to_jsonb(o) ->> h.property IS DISTINCT FROM to_jsonb(n) ->> h.property
            ORDER BY n.resource_id, h.job_id LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'the % of resource % cannot change: job % has it to itself',
                moved.property, moved.resource_id, moved.job_id;
        END IF;
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION exclusive_blocks_stay IS 'no resource leaves the block of an exclusive level that its job holds';

CREATE OR REPLACE TRIGGER exclusive_blocks_stay AFTER UPDATE ON resources
    REFERENCING OLD TABLE AS before NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION exclusive_blocks_stay();
