CREATE OR REPLACE FUNCTION hold_amounts(names text[], blocks text[], changes bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE lacking record;
BEGIN
    -- always in one order, so that two sessions never wait for each other
    PERFORM FROM consumable_capacities c
        JOIN unnest(names, blocks) AS w(consumable, block) USING (consumable, block)
        ORDER BY c.consumable, c.block FOR NO KEY UPDATE OF c;
    SELECT w.consumable, w.block, w.change, coalesce(c.capacity - c.held, 0) AS remaining INTO lacking
        FROM unnest(names, blocks, changes) AS w(consumable, block, change)
            LEFT JOIN consumable_capacities c USING (consumable, block)
        WHERE w.change > 0 AND (c.capacity IS NULL OR c.held + w.change > c.capacity)
        ORDER BY w.consumable, w.block LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% more of % is wanted on %, % is left',
            lacking.change, lacking.consumable, lacking.block, lacking.remaining
            USING ERRCODE = 'check_violation', TABLE = 'consumable_capacities', CONSTRAINT = 'enough_left';
    END IF;
    UPDATE consumable_capacities c SET held = greatest(c.held + w.change, 0)
        FROM unnest(names, blocks, changes) AS w(consumable, block, change)
        WHERE (c.consumable, c.block) = (w.consumable, w.block);
END $$;
COMMENT ON FUNCTION hold_amounts IS 'add to what is held of blocks; refuses more than there is';
