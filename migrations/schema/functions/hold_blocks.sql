-- Who asks for a level comes first: most jobs ask for none, and then none of their resources is looked at. A job that
-- asks for an amount of a consumable of the level divides its blocks with others that do.
CREATE OR REPLACE FUNCTION hold_blocks(holders bigint[]) RETURNS void LANGUAGE sql AS $$
    WITH asked AS MATERIALIZED (
        SELECT j.job_id, l.property, false AS shared
        FROM jobs j JOIN resource_groups g USING (moldable_id) JOIN resource_descriptions d USING (group_id)
            JOIN exclusive_levels l USING (level)
        WHERE j.job_id = ANY (holders)
        UNION
        SELECT j.job_id, c.level, true
        FROM jobs j JOIN consumption_descriptions d USING (moldable_id) JOIN consumables c ON c.name = d.consumable
        WHERE j.job_id = ANY (holders) AND c.level IN (SELECT property FROM exclusive_levels)
    ), asking AS MATERIALIZED (
        SELECT job_id, property, bool_or(shared) AS shared FROM asked GROUP BY job_id, property
    ), wanted AS MATERIALIZED (
        SELECT a.job_id, k.property, to_jsonb(r) ->> k.property AS block, bool_and(a.exclusive AND NOT k.shared) AS exclusive,
               bool_or(a.guest) AS guest, NOT bool_or(upper_inf(a.during)) AS suspended
        FROM asking k JOIN assigned_resources a USING (job_id) JOIN resources r USING (resource_id)
        WHERE (upper_inf(a.during) OR a.suspended) AND to_jsonb(r) ->> k.property IS NOT NULL
        GROUP BY 1, 2, 3
    ), returned AS (
        DELETE FROM held_blocks h WHERE h.job_id = ANY (holders)
            AND NOT EXISTS (SELECT FROM wanted w WHERE (w.job_id, w.property, w.block) = (h.job_id, h.property, h.block))
    )
    INSERT INTO held_blocks (job_id, property, block, exclusive, guest, suspended)
        SELECT job_id, property, block, exclusive, guest, suspended FROM wanted
        ON CONFLICT (job_id, property, block) DO UPDATE
            SET exclusive = excluded.exclusive, guest = excluded.guest, suspended = excluded.suspended
            WHERE (held_blocks.exclusive, held_blocks.guest, held_blocks.suspended)
                  <> (excluded.exclusive, excluded.guest, excluded.suspended);
$$;
COMMENT ON FUNCTION hold_blocks IS 'let jobs hold the blocks of exclusive levels that go with their resources';
