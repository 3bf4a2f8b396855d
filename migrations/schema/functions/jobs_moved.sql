-- Most statements move jobs from one state to one other. So the function looks only for what concerns the states that
-- jobs left or came to.
CREATE OR REPLACE FUNCTION jobs_moved() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    move record;
    sources text[] := '{}';
    targets text[] := '{}';
    passing boolean := false;
    total bigint := (SELECT count(*) FROM new_jobs);
    moved bigint := 0;
    moment timestamptz := clock_timestamp();
    -- Plans are kept for as long as the connection. Those made for a few jobs compare every row with every other, those
    -- made for many read whole tables.
    many boolean := total > 64;
BEGIN
    IF many THEN
        DISCARD PLANS;
    END IF;
    FOR move IN
        SELECT min(n.job_id) AS job, o.state AS source, n.state AS target, count(*) AS jobs
        FROM new_jobs n JOIN old_jobs o USING (job_id)
        WHERE n.state <> o.state GROUP BY 2, 3 ORDER BY 1
    LOOP
        sources := sources || move.source;
        targets := targets || move.target;
        moved := moved + move.jobs;
        IF NOT EXISTS (SELECT FROM job_transitions WHERE from_state = move.source AND to_state = move.target) THEN
            passing := true;
            IF NOT EXISTS (SELECT FROM job_passages WHERE from_state = move.source AND to_state = move.target) THEN
                RAISE EXCEPTION 'job % cannot go from % to %', move.job, move.source, move.target
                    USING ERRCODE = 'check_violation', HINT = 'job_transitions lists the allowed moves';
            END IF;
        END IF;
    END LOOP;
    -- What a pass reads of jobs, the columns that are described so, and of those that are over if others depend on them.
    -- A set difference: a join under EXISTS would compare every row with every other when it finds nothing. An IF of its
    -- own: a condition is planned as a whole, whatever of it is asked.
    IF moved < total THEN
        IF EXISTS (
            SELECT job_id, :read_by_passes
            FROM new_jobs n
            WHERE is_live(state) OR EXISTS (SELECT FROM job_dependencies d WHERE d.required_job_id = n.job_id)
            EXCEPT
            SELECT job_id, :read_by_passes
            FROM old_jobs) THEN
            PERFORM announce(ARRAY['job changed']);
        END IF;
    END IF;
    IF targets = '{}' THEN
        IF many THEN
            DISCARD PLANS;
        END IF;
        RETURN NULL;
    END IF;
    -- something is left if the clock went back
    UPDATE job_state_logs l
        SET during = tstzrange(lower(l.during), greatest(moment, lower(l.during) + interval '1 microsecond'))
        FROM new_jobs n JOIN old_jobs o USING (job_id)
        WHERE n.state <> o.state AND l.job_id = n.job_id AND upper_inf(l.during)
          AND l.state NOT IN ('Terminated', 'Error');
    IF passing THEN
        INSERT INTO job_state_logs (job_id, state, previous_state, during)
            SELECT n.job_id, way.states[k + 1], way.states[k], tstzrange(
                moment + (k - 1) * interval '1 microsecond',
                CASE WHEN k < cardinality(way.states) - 1 THEN moment + k * interval '1 microsecond' END)
            FROM new_jobs n JOIN old_jobs o USING (job_id)
                LEFT JOIN job_passages p ON p.from_state = o.state AND p.to_state = n.state
                CROSS JOIN LATERAL (SELECT o.state || coalesce(p.through, '{}') || n.state AS states) way
                CROSS JOIN LATERAL generate_series(1, cardinality(way.states) - 1) AS k
            WHERE n.state <> o.state;
    ELSE
        INSERT INTO job_state_logs (job_id, state, previous_state, during)
            SELECT n.job_id, n.state, o.state, tstzrange(moment, NULL)
            FROM new_jobs n JOIN old_jobs o USING (job_id)
            WHERE n.state <> o.state;
    END IF;
    -- a job that is over, or waits again, holds nothing; what is over has no prediction and needs no killing
    IF targets && ARRAY['Terminated', 'Error'] THEN
        UPDATE assigned_resources a
            SET during = held_until(a.during, moment), suspended = false
            FROM new_jobs n
            WHERE n.state IN ('Terminated', 'Error') AND a.job_id = n.job_id AND (upper_inf(a.during) OR a.suspended);
        UPDATE kill_requests k SET state = 'done'  -- not joined: nearly all are done, so few are expected
            WHERE k.job_id = ANY (ARRAY(SELECT n.job_id FROM new_jobs n WHERE n.state IN ('Terminated', 'Error')))
              AND k.state <> 'done';
    END IF;
    IF 'Waiting' = ANY (targets) THEN
        DELETE FROM assigned_resources a USING new_jobs n
            WHERE n.state = 'Waiting' AND a.job_id = n.job_id AND upper_inf(a.during);
    END IF;
    IF sources && ARRAY['Hold', 'Waiting', 'toAckReservation'] THEN
        DELETE FROM reserved_resources r USING new_jobs n
            WHERE n.state NOT IN ('Hold', 'Waiting', 'toAckReservation') AND r.job_id = n.job_id;
        DELETE FROM gantt_predictions g USING new_jobs n JOIN old_jobs o USING (job_id)
            WHERE n.state NOT IN ('Hold', 'Waiting', 'toAckReservation') AND n.state <> o.state
              AND g.job_id = n.job_id;
    END IF;
    PERFORM announce(array_agg(DISTINCT 'job ' || target)) FROM unnest(targets) AS target;
    IF many THEN
        DISCARD PLANS;
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER jobs_moved AFTER UPDATE ON jobs
    REFERENCING OLD TABLE AS old_jobs NEW TABLE AS new_jobs FOR EACH STATEMENT EXECUTE FUNCTION jobs_moved();
