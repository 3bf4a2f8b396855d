-- What triggers themselves write, and what goes with its job, comes from within another trigger. Tables of the past have
-- this trigger from where they are made.
CREATE OR REPLACE FUNCTION history_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT may_rewrite_history(TG_RELID) THEN
        RAISE EXCEPTION '% tells what happened: rows are added to it, none is changed or removed', TG_TABLE_NAME
            USING ERRCODE = 'check_violation',
                HINT = 'its owner may, in a transaction with SET LOCAL oarpy.rewrite_history = on';
    END IF;
    RETURN coalesce(NEW, OLD);
END $$;
COMMENT ON FUNCTION history_stays IS 'keep what happened from being changed';

CREATE OR REPLACE TRIGGER history_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON job_state_logs
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION history_stays();
CREATE OR REPLACE TRIGGER history_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON resource_state_logs
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION history_stays();
CREATE OR REPLACE TRIGGER history_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON event_logs
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION history_stays();
CREATE OR REPLACE TRIGGER history_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON admission_rule_versions
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION history_stays();
CREATE OR REPLACE TRIGGER history_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON quota_changes
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION history_stays();
CREATE OR REPLACE TRIGGER history_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON project_changes
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION history_stays();
-- The accounting adds to its sums.
CREATE OR REPLACE TRIGGER history_stays BEFORE DELETE OR TRUNCATE ON accounting
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION history_stays();
CREATE OR REPLACE TRIGGER history_stays BEFORE TRUNCATE ON jobs
    FOR EACH STATEMENT EXECUTE FUNCTION history_stays();
CREATE OR REPLACE TRIGGER history_stays BEFORE TRUNCATE ON assigned_resources
    FOR EACH STATEMENT EXECUTE FUNCTION history_stays();
CREATE OR REPLACE TRIGGER history_stays BEFORE TRUNCATE ON assigned_amounts
    FOR EACH STATEMENT EXECUTE FUNCTION history_stays();
CREATE OR REPLACE TRIGGER amounts_stay BEFORE UPDATE OR DELETE ON assigned_amounts
    FOR EACH ROW WHEN (pg_trigger_depth() = 0 AND NOT upper_inf(OLD.during)) EXECUTE FUNCTION history_stays();
CREATE OR REPLACE TRIGGER history_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON generations
    FOR EACH STATEMENT EXECUTE FUNCTION history_stays();
CREATE OR REPLACE TRIGGER history_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON past_months
    FOR EACH STATEMENT EXECUTE FUNCTION history_stays();
CREATE OR REPLACE TRIGGER history_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON node_away_logs
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION history_stays();
-- The end of a lost job that runs on comes later, once.
CREATE OR REPLACE TRIGGER history_stays BEFORE UPDATE OF job_id, attempt, network_address, generation, user_name,
        resources, began_at OR DELETE OR TRUNCATE ON lost_jobs
    FOR EACH STATEMENT EXECUTE FUNCTION history_stays();
CREATE OR REPLACE TRIGGER lost_ends_stay BEFORE UPDATE ON lost_jobs
    FOR EACH ROW WHEN (OLD.ended_at IS NOT NULL) EXECUTE FUNCTION history_stays();
-- grants_stay looks at updates.
CREATE OR REPLACE TRIGGER history_stays BEFORE DELETE OR TRUNCATE ON walltime_changes
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION history_stays();
