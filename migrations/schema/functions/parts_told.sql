-- What happened to jobs that are parts of a broker is noted for it; of bags that is found when it is asked for. A gate
-- has no use once its job was launched, or is over. Where nobody uses either, both tables are empty, and nothing else
-- is looked at.
CREATE OR REPLACE FUNCTION parts_told() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM launch_gates) THEN
        DELETE FROM launch_gates g USING new_jobs n
            WHERE g.job_id = n.job_id AND n.state NOT IN ('Hold', 'Waiting', 'toAckReservation', 'toLaunch');
    END IF;
    IF NOT EXISTS (SELECT FROM door_parts) THEN
        RETURN NULL;
    END IF;
    INSERT INTO door_events (broker, part, kind, at, job_id, hosts)
        SELECT p.broker, p.part, 'started', n.started_at, n.job_id, coalesce((
                   SELECT array_agg(r.network_address ORDER BY r.network_address, r.resource_id)
                   FROM assigned_resources a JOIN resources r USING (resource_id)
                   WHERE a.job_id = n.job_id AND r.type = 'default' AND r.network_address IS NOT NULL), '{}')
        FROM new_jobs n JOIN old_jobs o USING (job_id) JOIN door_parts p USING (job_id)
        WHERE n.started_at IS NOT NULL AND o.started_at IS NULL AND p.kind <> 'bag' ORDER BY n.job_id;
    INSERT INTO door_events (broker, part, kind, at, job_id, exit_status, reason)
        SELECT p.broker, p.part, CASE
                   WHEN n.state = 'Terminated' THEN 'ended'
                   WHEN k.requested_by = 'metascheduler' OR k.reason LIKE 'evicted%' THEN 'evicted'
                   WHEN n.message LIKE 'lost:%' OR k.reason LIKE 'lost:%' THEN 'lost'
                   ELSE 'failed' END,
               n.ended_at, n.job_id, n.exit_status, CASE WHEN n.state = 'Error' THEN n.message ELSE '' END
        FROM new_jobs n JOIN old_jobs o USING (job_id) JOIN door_parts p USING (job_id)
            LEFT JOIN kill_requests k USING (job_id)
        WHERE n.state IN ('Terminated', 'Error') AND n.state <> o.state AND p.state <> 'Aborted'
          AND p.held_at IS NOT NULL AND p.kind <> 'bag'
        ORDER BY n.job_id;
    -- what is to begin at a date does not wait for other resources: its broker looks for some, elsewhere too
    INSERT INTO kill_requests (job_id, requested_by, reason)
        SELECT n.job_id, 'door', 'lost: its node could not begin it'
        FROM new_jobs n JOIN old_jobs o USING (job_id) JOIN door_parts p USING (job_id)
        WHERE n.state = 'Waiting' AND o.state IN ('toLaunch', 'Finishing') AND p.kind NOT IN ('queued', 'bag')
        ON CONFLICT (job_id) DO NOTHING;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION parts_told IS 'note for brokers what happened to their parts, and forget gates that have served';

CREATE OR REPLACE TRIGGER parts_told AFTER UPDATE ON jobs
    REFERENCING OLD TABLE AS old_jobs NEW TABLE AS new_jobs FOR EACH STATEMENT EXECUTE FUNCTION parts_told();
