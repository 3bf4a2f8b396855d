-- Nothing that was given before, and is forgotten here, may be given again: ids go on beyond what may be lost.
CREATE OR REPLACE FUNCTION begin_generation(why text, known bigint DEFAULT 0) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    latest generations;
    highest bigint;
    next bigint;
    gap CONSTANT bigint := 1000000;
BEGIN
    LOCK TABLE generations IN SHARE ROW EXCLUSIVE MODE;
    SELECT * INTO latest FROM generations ORDER BY generation DESC LIMIT 1;
    IF NOT FOUND THEN
        INSERT INTO generations (generation, copy, last_job, next_job, reason)
            VALUES (0, database_copy(), 0, 0, 'the first') RETURNING * INTO latest;
    END IF;
    highest := greatest((SELECT last_value FROM jobs_job_id_seq WHERE is_called), (SELECT max(job_id) FROM jobs), 0);
    IF known <= highest AND latest.copy = database_copy() THEN
        RETURN latest.generation;  -- somebody else has noticed it
    END IF;
    next := (greatest(highest, known) / gap + 2) * gap;
    PERFORM setval('jobs_job_id_seq', next);
    INSERT INTO generations (generation, copy, last_job, next_job, lost_from, reason)
        SELECT latest.generation + 1, database_copy(), highest, next, CASE WHEN known = 0 THEN max(at) END, why
        FROM module_runs;
    INSERT INTO event_logs (type, description) VALUES ('RESTORED', concat(
        why, ': jobs after ', highest, ' may be lost; new ones begin at ', next + 1));
    RETURN latest.generation + 1;
END $$;
COMMENT ON FUNCTION begin_generation IS 'note that the database was restored, and move job ids past what may be lost';
