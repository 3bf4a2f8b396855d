CREATE OR REPLACE FUNCTION jobs_moved() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    forbidden record;
    moment timestamptz := clock_timestamp();
BEGIN
    SELECT o.job_id, o.state AS source, n.state AS target INTO forbidden
        FROM new_jobs n JOIN old_jobs o USING (job_id)
        WHERE n.state <> o.state
          AND NOT EXISTS (SELECT FROM job_transitions t WHERE t.from_state = o.state AND t.to_state = n.state)
        ORDER BY n.job_id LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'job % cannot go from % to %', forbidden.job_id, forbidden.source, forbidden.target
            USING ERRCODE = 'check_violation', HINT = 'job_transitions lists the allowed moves';
    END IF;
    -- set differences: a join under EXISTS would compare every row with every other when it finds nothing
    IF NOT EXISTS (SELECT job_id, state FROM new_jobs EXCEPT SELECT job_id, state FROM old_jobs) THEN
        IF EXISTS (SELECT job_id, queue_name, types, properties, project, moldable_id FROM new_jobs
                   WHERE state = 'Waiting'
                   EXCEPT SELECT job_id, queue_name, types, properties, project, moldable_id FROM old_jobs) THEN
            PERFORM announce(ARRAY['job changed']);
        END IF;
        RETURN NULL;
    END IF;
    UPDATE job_state_logs l
        SET during = tstzrange(lower(l.during), greatest(moment, lower(l.during)))
        FROM new_jobs n JOIN old_jobs o USING (job_id)
        WHERE n.state <> o.state AND l.job_id = n.job_id AND upper_inf(l.during)
          AND l.state NOT IN ('Terminated', 'Error');
    INSERT INTO job_state_logs (job_id, state, previous_state, during)
        SELECT n.job_id, n.state, o.state, tstzrange(moment, NULL)
        FROM new_jobs n JOIN old_jobs o USING (job_id)
        WHERE n.state <> o.state;
    -- a job that is over, or waits again, holds nothing; what is over has no prediction and needs no killing
    UPDATE assigned_resources a
        SET during = tstzrange(lower(a.during), greatest(moment, lower(a.during) + interval '1 microsecond'))
        FROM new_jobs n
        WHERE n.state IN ('Terminated', 'Error') AND a.job_id = n.job_id AND upper_inf(a.during);
    DELETE FROM assigned_resources a USING new_jobs n
        WHERE n.state = 'Waiting' AND a.job_id = n.job_id AND upper_inf(a.during);
    DELETE FROM reserved_resources r USING new_jobs n
        WHERE n.state NOT IN ('Hold', 'Waiting', 'toAckReservation') AND r.job_id = n.job_id;
    DELETE FROM gantt_predictions g USING new_jobs n JOIN old_jobs o USING (job_id)
        WHERE n.state NOT IN ('Hold', 'Waiting', 'toAckReservation') AND n.state <> o.state AND g.job_id = n.job_id;
    UPDATE kill_requests k SET state = 'done'
        FROM new_jobs n WHERE n.state IN ('Terminated', 'Error') AND k.job_id = n.job_id AND k.state <> 'done';
    PERFORM announce(array_agg(DISTINCT 'job ' || n.state))
        FROM new_jobs n JOIN old_jobs o USING (job_id) WHERE n.state <> o.state;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION job_noticed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO notices (job_id, tag, comment)
    SELECT NEW.job_id, t.tag, CASE WHEN NEW.message = '' OR t.tag <> 'ERROR' THEN t.comment
                                   ELSE t.comment || ' ' || NEW.message END
    FROM (VALUES ('Running', 'RUNNING', 'Job is running.'),
                 ('Terminated', 'END', 'Job stopped normally.'),
                 ('Error', 'ERROR', 'Job stopped abnormally or an error occurred.'),
                 ('Suspended', 'SUSPENDED', 'Job is suspended.'),
                 ('Resuming', 'RESUMING', 'Job is resuming.')) AS t (state, tag, comment)
    WHERE t.state = NEW.state AND NOT (OLD.state = 'Resuming' AND NEW.state = 'Running');
    RETURN NULL;
END $$;

DROP TABLE job_passages;
