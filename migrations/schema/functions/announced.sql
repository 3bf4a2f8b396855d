-- A change of any row of these tables is announced as the event that the trigger names. What triggers change is announced
-- with what they were fired by. A pass that told itself what it has just given would run again after every start.
CREATE OR REPLACE FUNCTION announced() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM changed) THEN
        PERFORM announce(ARRAY[TG_ARGV[0]]);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON queues
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('queues changed');
CREATE OR REPLACE TRIGGER announced AFTER UPDATE ON queues
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('queues changed');
CREATE OR REPLACE TRIGGER announced_gone AFTER DELETE ON queues
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('queues changed');

CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON quotas
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');
CREATE OR REPLACE TRIGGER announced AFTER UPDATE ON quotas
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');
CREATE OR REPLACE TRIGGER announced_gone AFTER DELETE ON quotas
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');

CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON quota_sets
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');
CREATE OR REPLACE TRIGGER announced AFTER UPDATE ON quota_sets
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');
CREATE OR REPLACE TRIGGER announced_gone AFTER DELETE ON quota_sets
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');

CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON quota_periods
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');
CREATE OR REPLACE TRIGGER announced AFTER UPDATE ON quota_periods
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');
CREATE OR REPLACE TRIGGER announced_gone AFTER DELETE ON quota_periods
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');

CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON quota_exceptions
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');
CREATE OR REPLACE TRIGGER announced AFTER UPDATE ON quota_exceptions
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');
CREATE OR REPLACE TRIGGER announced_gone AFTER DELETE ON quota_exceptions
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');

CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON job_dependencies
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('job changed');
CREATE OR REPLACE TRIGGER announced AFTER UPDATE ON job_dependencies
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('job changed');
CREATE OR REPLACE TRIGGER announced_gone AFTER DELETE ON job_dependencies
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('job changed');

CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON reserved_resources
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT
    WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION announced('job changed');
CREATE OR REPLACE TRIGGER announced AFTER UPDATE ON reserved_resources
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT
    WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION announced('job changed');
CREATE OR REPLACE TRIGGER announced_gone AFTER DELETE ON reserved_resources
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT
    WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION announced('job changed');

CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON assigned_resources
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT
    WHEN (pg_trigger_depth() = 0 AND current_setting('application_name') <> 'oarpy metascheduler')
    EXECUTE FUNCTION announced('resources returned');

CREATE OR REPLACE TRIGGER announced AFTER UPDATE ON assigned_resources
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT
    WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION announced('resources returned');

CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON assigned_amounts
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT
    WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION announced('resources returned');
CREATE OR REPLACE TRIGGER announced AFTER UPDATE ON assigned_amounts
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT
    WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION announced('resources returned');

CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON node_power
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('power changed');
CREATE OR REPLACE TRIGGER announced AFTER UPDATE ON node_power
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('power changed');
CREATE OR REPLACE TRIGGER announced_gone AFTER DELETE ON node_power
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('power changed');

CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON nodes
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('nodes changed');
CREATE OR REPLACE TRIGGER announced_gone AFTER DELETE ON nodes
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('nodes changed');

CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON kill_requests
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('kill requested');

CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON signal_requests
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('signal requested');

CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON suspend_requests
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('suspend requested');
CREATE OR REPLACE TRIGGER announced AFTER UPDATE ON suspend_requests
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('suspend changed');

CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON notices
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('notice queued');

CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON recurring_jobs
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('recurring jobs changed');
CREATE OR REPLACE TRIGGER announced AFTER UPDATE ON recurring_jobs
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT
    WHEN (current_setting('application_name') <> 'oarpy recurrence')
    EXECUTE FUNCTION announced('recurring jobs changed');
