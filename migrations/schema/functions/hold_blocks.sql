CREATE OR REPLACE FUNCTION hold_blocks(holders bigint[]) RETURNS void LANGUAGE sql AS $$
    WITH wanted AS MATERIALIZED (
        SELECT a.job_id, l.property, to_jsonb(r) ->> l.property AS block, bool_and(a.exclusive) AS exclusive,
               bool_or(a.guest) AS guest, NOT bool_or(upper_inf(a.during)) AS suspended
        FROM assigned_resources a JOIN resources r USING (resource_id) JOIN jobs j USING (job_id)
            JOIN exclusive_levels l ON EXISTS (
                SELECT FROM resource_groups g JOIN resource_descriptions d USING (group_id)
                WHERE g.moldable_id = j.moldable_id AND d.level = l.level)
        WHERE a.job_id = ANY (holders) AND (upper_inf(a.during) OR a.suspended) AND to_jsonb(r) ->> l.property IS NOT NULL
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
