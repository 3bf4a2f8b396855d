CREATE OR REPLACE FUNCTION amounts_moved() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    names text[];
    blocks text[];
    changes bigint[];
BEGIN
    IF TG_OP = 'INSERT' THEN
        SELECT array_agg(consumable), array_agg(block), array_agg(change) INTO names, blocks, changes FROM (
            SELECT consumable, block, sum(amount)::bigint AS change FROM taken WHERE upper_inf(during)
            GROUP BY consumable, block) AS sums;
    ELSIF TG_OP = 'DELETE' THEN
        SELECT array_agg(consumable), array_agg(block), array_agg(change) INTO names, blocks, changes FROM (
            SELECT consumable, block, -sum(amount)::bigint AS change FROM gone WHERE upper_inf(during)
            GROUP BY consumable, block) AS sums;
    ELSE
        SELECT array_agg(consumable), array_agg(block), array_agg(change) INTO names, blocks, changes FROM (
            SELECT consumable, block, sum(amount)::bigint AS change FROM (
                SELECT consumable, block, amount FROM taken WHERE upper_inf(during)
                UNION ALL SELECT consumable, block, -amount FROM gone WHERE upper_inf(during)) AS both_ways
            GROUP BY consumable, block HAVING sum(amount) <> 0) AS sums;
    END IF;
    IF names IS NOT NULL THEN PERFORM hold_amounts(names, blocks, changes); END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION amounts_moved IS 'keep the sums of what is held';

CREATE OR REPLACE TRIGGER amounts_taken AFTER INSERT ON assigned_amounts
    REFERENCING NEW TABLE AS taken FOR EACH STATEMENT EXECUTE FUNCTION amounts_moved();
CREATE OR REPLACE TRIGGER amounts_changed AFTER UPDATE ON assigned_amounts
    REFERENCING OLD TABLE AS gone NEW TABLE AS taken FOR EACH STATEMENT EXECUTE FUNCTION amounts_moved();
CREATE OR REPLACE TRIGGER amounts_given_back AFTER DELETE ON assigned_amounts
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION amounts_moved();
