CREATE OR REPLACE FUNCTION announce(kinds text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE kind text;
BEGIN
    FOREACH kind IN ARRAY coalesce(kinds, '{}') LOOP PERFORM pg_notify('oarpy_events', kind); END LOOP;
END $$;
COMMENT ON FUNCTION announce IS 'tell the automaton what happened; the server merges repeats within a transaction';
