-- Its text takes the place of its calls when a statement is planned, so that the partial indexes on live jobs serve.
CREATE OR REPLACE FUNCTION is_live(state text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT state NOT IN ('Terminated', 'Error')
$$;
COMMENT ON FUNCTION is_live IS 'whether a job in this state is not over';
