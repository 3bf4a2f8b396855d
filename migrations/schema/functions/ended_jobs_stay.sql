-- What an ended job was, and that it was counted: it would be paid for twice. That it leaves its final state is refused
-- as every wrong move is.
CREATE OR REPLACE FUNCTION ended_jobs_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF may_rewrite_history(TG_RELID) THEN
        RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.accounted < OLD.accounted THEN
        RAISE EXCEPTION 'job % is counted already', OLD.job_id
            USING ERRCODE = 'check_violation', HINT = 'oaraccounting --reinitialize counts all jobs again';
    END IF;
    RAISE EXCEPTION 'job % is over: what it was stays', OLD.job_id
        USING ERRCODE = 'check_violation',
            HINT = 'the owner of the table may change it, in a transaction with SET LOCAL oarpy.rewrite_history = on';
END $$;
COMMENT ON FUNCTION ended_jobs_stay IS 'keep ended jobs as they are, and counted once';

CREATE OR REPLACE TRIGGER ended_jobs_stay BEFORE UPDATE OF job_id, submission_id, array_id, array_index, user_name,
        project, queue_name, types, moldable_id, walltime, exit_status, submitted_at, started_at, ended_at,
        suspended_time, accounted, command, attempt, resubmit_of, reservation_start ON jobs FOR EACH ROW
    WHEN (OLD.ended_at IS NOT NULL AND NEW.state = OLD.state AND (NEW.accounted < OLD.accounted
        OR (NEW.job_id, NEW.submission_id, NEW.array_id, NEW.array_index, NEW.user_name, NEW.project, NEW.queue_name,
            NEW.types, NEW.moldable_id, NEW.walltime, NEW.exit_status, NEW.submitted_at, NEW.started_at,
            NEW.ended_at, NEW.suspended_time, NEW.command, NEW.attempt, NEW.resubmit_of, NEW.reservation_start)
        IS DISTINCT FROM (OLD.job_id, OLD.submission_id, OLD.array_id, OLD.array_index, OLD.user_name, OLD.project,
            OLD.queue_name, OLD.types, OLD.moldable_id, OLD.walltime, OLD.exit_status, OLD.submitted_at,
            OLD.started_at, OLD.ended_at, OLD.suspended_time, OLD.command, OLD.attempt, OLD.resubmit_of,
            OLD.reservation_start)))
    EXECUTE FUNCTION ended_jobs_stay();
CREATE OR REPLACE TRIGGER ended_jobs_kept BEFORE DELETE ON jobs FOR EACH ROW
    WHEN (OLD.ended_at IS NOT NULL) EXECUTE FUNCTION ended_jobs_stay();
