-- A job that gets resources takes, from each block of theirs, what its alternative asks for.
-- One that was there before has its amount again: it counts as held in between.
CREATE OR REPLACE FUNCTION amounts_assigned() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM consumables) THEN
        INSERT INTO assigned_amounts (job_id, consumable, block, amount, during)
            SELECT j.job_id, c.name, to_jsonb(r) ->> c.level, min(d.amount), tstzrange(min(lower(g.during)), NULL)
            FROM given g JOIN jobs j USING (job_id)
                JOIN consumption_descriptions d ON d.moldable_id = j.moldable_id
                JOIN consumables c ON c.name = d.consumable
                JOIN resources r ON r.resource_id = g.resource_id
            WHERE upper_inf(g.during) AND to_jsonb(r) ->> c.level IS NOT NULL
            GROUP BY 1, 2, 3
            ON CONFLICT (job_id, consumable, block) DO UPDATE
                SET during = tstzrange(lower(assigned_amounts.during), NULL)
                WHERE NOT upper_inf(assigned_amounts.during);
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION amounts_assigned IS 'give jobs the amounts that go with their resources';

CREATE OR REPLACE TRIGGER amounts_assigned AFTER INSERT ON assigned_resources
    REFERENCING NEW TABLE AS given FOR EACH STATEMENT EXECUTE FUNCTION amounts_assigned();
CREATE OR REPLACE TRIGGER amounts_returned AFTER UPDATE ON assigned_resources
    REFERENCING NEW TABLE AS given FOR EACH STATEMENT
    WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION amounts_assigned();
