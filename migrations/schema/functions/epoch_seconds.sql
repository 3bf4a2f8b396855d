-- Its text takes the place of its calls when a statement is planned.
CREATE OR REPLACE FUNCTION epoch_seconds(moment timestamptz) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN moment IS NULL THEN 0
                ELSE least(floor(extract(epoch FROM moment AT TIME ZONE 'UTC')), 2147483647)::integer END
$$;
COMMENT ON FUNCTION epoch_seconds IS 'an instant as OAR 2.5 writes it: epoch seconds, 0 for none';
