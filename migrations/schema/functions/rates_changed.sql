-- Whoever changes rates has a pass map the jobs anew that wait and have these: their maps of before are forgotten.
CREATE OR REPLACE FUNCTION rates_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE mapped_jobs m
    SET rates_at = clock_timestamp(), seconds = NULL, walltime = NULL, node_types = NULL, assigned = NULL
    FROM jobs j
    WHERE m.live AND j.job_id = m.job_id AND j.state IN ('Hold', 'Waiting') AND EXISTS (
        SELECT FROM changed c
        WHERE (c.user_name, c.program, c.program_size, c.program_date, c.arguments)
            = (j.user_name, m.program, m.program_size, m.program_date, m.arguments));
    IF FOUND THEN
        PERFORM announce(ARRAY['job changed']);
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION rates_changed IS 'tell passes that rates of programs changed';

CREATE OR REPLACE TRIGGER rates_added AFTER INSERT ON application_rates
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION rates_changed();
CREATE OR REPLACE TRIGGER rates_changed AFTER UPDATE ON application_rates
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION rates_changed();
CREATE OR REPLACE TRIGGER rates_forgotten AFTER DELETE ON application_rates
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION rates_changed();
