-- A capacity of which jobs hold something stays, or their amounts would belong to nothing.
CREATE OR REPLACE FUNCTION held_capacities_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'jobs hold % of % on %', OLD.held, OLD.consumable, OLD.block
        USING ERRCODE = 'check_violation', HINT = 'wait for them, or delete them first';
END $$;

CREATE OR REPLACE TRIGGER held_capacities_stay BEFORE DELETE ON consumable_capacities FOR EACH ROW
    WHEN (OLD.held > 0) EXECUTE FUNCTION held_capacities_stay();
