-- Its text takes the place of its calls when a statement is planned. Something is left if the clock went back.
CREATE OR REPLACE FUNCTION held_until(during tstzmultirange, moment timestamptz) RETURNS tstzmultirange
LANGUAGE sql STABLE AS $$
    SELECT during * tstzmultirange(tstzrange(NULL, greatest(moment, lower(during) + interval '1 microsecond')))
$$;
COMMENT ON FUNCTION held_until IS 'when a job held a resource, if it gives it back at the moment';
