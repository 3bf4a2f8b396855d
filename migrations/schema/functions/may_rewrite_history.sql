-- For mistakes of the owner, who says in his transaction that he means it: SET LOCAL oarpy.rewrite_history = on.
CREATE OR REPLACE FUNCTION may_rewrite_history(relation regclass) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce(current_setting('oarpy.rewrite_history', true), '') = 'on'
        AND pg_has_role((SELECT relowner FROM pg_class WHERE oid = relation), 'USAGE')
$$;
COMMENT ON FUNCTION may_rewrite_history IS 'whether the owner of a table says that he changes what happened';
