-- Only the triggers on amounts count what is held: at depth 0 a statement of somebody else does.
CREATE OR REPLACE FUNCTION held_is_counted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.held <> (SELECT coalesce(sum(amount), 0) FROM assigned_amounts
                    WHERE consumable = NEW.consumable AND block = NEW.block AND upper_inf(during)) THEN
        RAISE EXCEPTION 'what is held of % on % is counted from assigned_amounts', NEW.consumable, NEW.block
            USING ERRCODE = 'check_violation', HINT = 'change the capacity, or end the jobs that hold it';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION held_is_counted IS 'refuse sums of what is held that nobody counted';

CREATE OR REPLACE TRIGGER held_is_counted BEFORE UPDATE OF held ON consumable_capacities FOR EACH ROW
    WHEN (pg_trigger_depth() = 0 AND NEW.held <> OLD.held) EXECUTE FUNCTION held_is_counted();
CREATE OR REPLACE TRIGGER held_is_counted_new BEFORE INSERT ON consumable_capacities FOR EACH ROW
    WHEN (pg_trigger_depth() = 0 AND NEW.held <> 0) EXECUTE FUNCTION held_is_counted();
