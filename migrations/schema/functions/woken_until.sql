-- OAR 2.5 has a number for each wish: a date, 2147483646 for a node that can always be woken, 2147483647 for one that
-- does not sleep. Who reads a view calls its functions, so this reads no table.
CREATE OR REPLACE FUNCTION woken_until(available_upto timestamptz, asleep boolean) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN available_upto IS NOT NULL THEN least(public.epoch_seconds(available_upto), 2147483646)
                WHEN asleep THEN 2147483646 ELSE 2147483647 END
$$;
COMMENT ON FUNCTION woken_until IS 'available_upto of OAR 2.5: until when a resource can be woken, epoch seconds';
